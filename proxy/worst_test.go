package proxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/openai"
)

// genome decides what a body is like: each decision takes one of its numbers.
type genome struct {
	numbers []uint16
	at      int
}

func (g *genome) pick(n int) int {
	g.at++
	return int(g.numbers[g.at%len(g.numbers)]) % n
}

func (g *genome) of(choices ...string) string { return choices[g.pick(len(choices))] }

// mutated changes some of the numbers.
func (g *genome) mutated(random *rand.Rand) *genome {
	child := &genome{numbers: slices.Clone(g.numbers)}
	for range 1 + random.IntN(4) {
		child.numbers[random.IntN(len(child.numbers))] = uint16(random.Uint32())
	}
	return child
}

// times is so many of what element makes, from one to ten thousand.
func (g *genome) times(element func() string) string {
	var list []string
	n, kinds := []int{1, 1, 2, 10, 100, 1000, 9999}[g.pick(7)], 1+g.pick(3)
	for range min(n, kinds) {
		list = append(list, element())
	}
	some := strings.Join(list, ",") + ","
	all := strings.Repeat(some, max(1, min(n/len(list), largest/len(some))))
	return all[:len(all)-1]
}

// numbered is times for what must be different.
func (g *genome) numbered(format string) string {
	var list []string
	for i := range min([]int{1, 2, 10, 100, 500}[g.pick(5)], 1+largest/len(format)) {
		list = append(list, fmt.Sprintf(format, i))
	}
	return strings.Join(list, ",")
}

// words is a string of one of the kinds that take more or less room decoded.
func (g *genome) words() string {
	piece := g.of("x", `\n`, `\"`, `\\`, `\u0001`, `\u00e9`, "<", "é", "\u2028", "a\xff", `\ud800`, `{`, " ")
	return `"` + strings.Repeat(piece, []int{0, 0, 1, 2, 16, 1000, 200_000}[g.pick(7)]/len(piece)) + `"`
}

func (g *genome) chatPart() string {
	return g.of(`{}`, `{"type":"text","text":`+g.words()+`}`, `{"type":"text","text":""}`, `{"type":"image_url","image_url":{"url":"`+onePixel+`"}}`, `{"type":"refusal","refusal":`+g.words()+`}`, `[]`, `0`)
}

func (g *genome) chatMessage() string {
	switch g.pick(7) {
	case 0:
		return `{}`
	case 1:
		return `{"role":` + g.of(`"user"`, `"system"`, `"developer"`) + `,"content":` + g.words() + `}`
	case 2:
		return `{"role":` + g.of(`"user"`, `"assistant"`, `"system"`) + `,"content":[` + g.times(g.chatPart) + `]}`
	case 3:
		return `{"role":"assistant","tool_calls":[` + g.times(func() string {
			return g.of(`{}`, `{"id":"a","function":{"name":"b","arguments":`+g.words()+`}}`, `{"id":"","function":{}}`)
		}) + `]}`
	case 4:
		return `{"role":"assistant","tool_calls":[` + g.numbered(`{"id":"%d","function":{"name":"b","arguments":`+strings.ReplaceAll(g.words(), "%", "")+`}}`) + `]}`
	case 5:
		return `{"role":"assistant","content":"","function_call":{"name":"a","arguments":` + g.words() + `}},{"role":"function","name":"a","content":` + g.words() + `}`
	default:
		return `{"role":"user","name":"a","x":` + g.nest() + `,"content":""}`
	}
}

// nest is deep, or wide.
func (g *genome) nest() string {
	depth := []int{1, 10, 90, 1000}[g.pick(4)]
	open, end := `[`, `]`
	if g.pick(2) == 0 {
		open, end = `{"a":`, `}`
	}
	return strings.Repeat(open, depth) + g.of("0", "{}", "[]", `""`) + strings.Repeat(end, depth)
}

func (g *genome) schema() string {
	property := g.of(`{}`, `{"type":"string"}`, `{"enum":["a"]}`, `{"type":"object","properties":{"b":{}}}`, `{"not":`+g.nest()+`}`, `{"description":`+g.words()+`}`)
	return `{"type":"object","properties":{` + g.numbered(`"p%d":`+strings.ReplaceAll(property, "%", "")) + `}}`
}

func (g *genome) function() string {
	return `"name":"f%d","description":` + strings.ReplaceAll(g.words(), "%", "") + `,"parameters":` + g.schema()
}

func (g *genome) chat() string {
	body := `{"model":"demo","messages":[` + g.times(g.chatMessage) + `]`
	switch g.pick(6) {
	case 0:
		body += `,"tools":[` + g.numbered(`{"type":"function","function":{`+g.function()+`}}`) + `]`
	case 1:
		body += `,"functions":[` + g.numbered(`{`+g.function()+`}`) + `]`
	case 2:
		body += `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + g.schema() + `}}`
	case 3:
		body += `,"metadata":{` + g.numbered(`"m%d":""`) + `},"logit_bias":` + g.nest()
	case 4:
		body += `,` + g.numbered(`"unknown%d":{}`)
	}
	return body + `}`
}

func (g *genome) item() string {
	part := func() string {
		return g.of(`{}`, `{"type":"input_text","text":`+g.words()+`}`, `{"type":"input_text"}`, `{"type":"input_image","image_url":"`+onePixel+`"}`, `{"type":"refusal","refusal":`+g.words()+`}`)
	}
	switch g.pick(9) {
	case 0:
		return `{}`
	case 1:
		return `{"role":"user","content":` + g.words() + `}`
	case 2:
		return `{"role":` + g.of(`"user"`, `"assistant"`, `"system"`) + `,"content":[` + g.times(part) + `]}`
	case 3:
		return `{"type":"function_call","call_id":"a","name":"b","arguments":` + g.words() + `},{"type":"function_call_output","call_id":"a","output":` + g.words() + `}`
	case 4:
		return `{"type":"custom_tool_call","call_id":"a","name":"b","input":` + g.words() + `},{"type":"custom_tool_call_output","call_id":"a","output":[` + g.times(part) + `]}`
	case 5:
		return `{"type":"reasoning","encrypted_content":"x","summary":[` + g.times(func() string { return `{"type":"summary_text","text":` + g.words() + `}` }) + `]}`
	case 6:
		return `{"type":"additional_tools","tools":[` + g.numbered(`{"type":"function",`+g.function()+`}`) + `]}`
	case 7:
		return `{"type":"tool_search_call","call_id":"a","arguments":` + g.nest() + `},{"type":"tool_search_output","call_id":"a","tools":[{"type":"function","name":"z"}]}`
	default:
		return `{"type":"reasoning","summary":` + g.nest() + `}`
	}
}

func (g *genome) response() string {
	body := `{"model":"demo","input":[` + g.times(g.item) + `]`
	switch g.pick(7) {
	case 0:
		body += `,"tools":[` + g.numbered(`{"type":"function",`+g.function()+`}`) + `]`
	case 1:
		body += `,"tools":[` + g.numbered(`{"type":"custom","name":"c%d","format":{"type":"grammar","definition":`+strings.ReplaceAll(g.words(), "%", "")+`}}`) + `]`
	case 2:
		body += `,"tools":[{"type":"namespace","name":"n","tools":[` + g.numbered(`{"type":"function",`+g.function()+`}`) + `]}]`
	case 3:
		body += `,"instructions":` + g.words()
	case 4:
		body += `,"text":{"format":{"type":"json_schema","name":"a","schema":` + g.schema() + `}}`
	case 5:
		body += `,"metadata":{` + g.numbered(`"m%d":""`) + `},"include":[` + g.times(func() string { return `"x"` }) + `]`
	}
	return body + `}`
}

// The bodies of the search are of so many bytes, less are not noticed beside those that
// the program has anyway.
const noticed, largest = 16 << 10, 256 << 10

// body is what the genome stands for; response tells whose it is.
func (g *genome) body() (body []byte, response bool) {
	g.at = 0
	if response = g.pick(2) == 0; response {
		body = []byte(g.response())
	} else {
		body = []byte(g.chat())
	}
	return body, response
}

// takeIn does with a body what is done until a worker has it, and returns all that is
// there then.
func takeIn(t *testing.T, body []byte, response bool) (made []any, footprint int64) {
	if !response {
		req, err := openai.DecodeChat(body)
		if err != nil {
			return []any{err}, 0
		}
		request := plan(req)
		request.Fingerprint()
		return []any{req, request}, request.Footprint()
	}
	req, err := openai.DecodeResponse(body)
	if err != nil {
		return []any{err}, 0
	}
	s := &Server{}
	job, err := s.newResponse(t.Context(), &exchange{}, req, nil)
	if err != nil {
		return []any{req, err}, 0
	}
	request, _, _, err := planResponse(req, job.conversation())
	if err != nil {
		return []any{job, err}, 0
	}
	request.Fingerprint()
	return []any{job, request}, request.Footprint()
}

// retained is how many bytes stay of a body that was taken in.
func retained(t *testing.T, body []byte, response bool) int64 {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	sent := slices.Clone(body) // nobody needs it after that
	before := heap()
	made, _ := takeIn(t, sent, response)
	after := heap()
	runtime.KeepAlive(made)
	return after - before + int64(len(body)) // which is let go of
}

// alive is how many bytes are alive at most while the body is taken in. What the
// collector finds too late is only ever more: the least of several tries is the truth.
func alive(t *testing.T, body []byte, response bool) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	least := int64(math.MaxInt64)
	for range 5 {
		least = min(least, aliveOnce(t, body, response))
	}
	return least
}

func aliveOnce(t *testing.T, body []byte, response bool) (most int64) {
	live := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := func() int64 {
		gometrics.Read(live)
		return int64(live[0].Value.Uint64())
	}
	runtime.GC()
	before := now()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				most = max(most, now()-before)
				runtime.Gosched()
			}
		}
	}()
	made, _ := takeIn(t, slices.Clone(body), response)
	close(done)
	<-stopped
	runtime.GC()
	most = max(most, now()-before)
	runtime.KeepAlive(made)
	return most
}

// A search for the body that takes most beside what is counted for it: by what stays
// of it, which is the same each time. A half more than is counted is alive at most: a
// long schema is there as it is shown, too, and the collector finds some late. The
// process may take twice as much.
func TestWorstBody(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type found struct {
		*genome
		ratio float64
	}
	judge := func(g *genome) found {
		body, response := g.body()
		bytes, _, err := weightOf(body)
		if err != nil || len(body) < noticed || len(body) > largest {
			return found{g, 0}
		}
		return found{g, float64(retained(t, body, response)) / float64(bytes)}
	}
	var best []found
	keep := func(f found) {
		best = append(best, f)
		slices.SortFunc(best, func(a, b found) int { return int(1000 * (b.ratio - a.ratio)) })
		best = best[:min(len(best), 10)]
	}
	for range 100 {
		g := &genome{numbers: make([]uint16, 48)}
		for i := range g.numbers {
			g.numbers[i] = uint16(random.Uint32())
		}
		keep(judge(g))
	}
	for range 200 {
		keep(judge(best[random.IntN(len(best))].mutated(random)))
	}
	for _, f := range best {
		body, response := f.body()
		bytes, w, _ := weightOf(body)
		_, footprint := takeIn(t, slices.Clone(body), response)
		shown := string(body[:min(len(body), 300)])
		live := alive(t, body, response)
		t.Logf("%.2f stay: %d bytes, %d elements, %d items: counted %d, alive %d, %s", f.ratio, len(body), w.Elements, w.Items, bytes, live, shown)
		assert.LessOrEqual(t, f.ratio, 1.25, shown)
		assert.LessOrEqual(t, footprint, bytes, shown)
		assert.LessOrEqual(t, live, bytes+bytes/2+noticed, shown)
	}
}
