// Package limitstest searches for the bodies that take most memory.
package limitstest

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"slices"
	"strings"
	"testing"

	"codex-proxy/proxy/limits"
	"codex-proxy/test/nightly"

	"github.com/stretchr/testify/assert"
)

// OnePixel is the data URL of the smallest image.
const OnePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Genome decides what a body is like: each decision takes one of its numbers.
type Genome struct {
	numbers []uint16
	at      int
}

func (g *Genome) pick(n int) int {
	g.at++
	return int(g.numbers[g.at%len(g.numbers)]) % n
}

func (g *Genome) of(choices ...string) string { return choices[g.pick(len(choices))] }

// mutated changes some of the numbers.
func (g *Genome) mutated(random *rand.Rand) *Genome {
	child := &Genome{numbers: slices.Clone(g.numbers)}
	for range 1 + random.IntN(4) {
		child.numbers[random.IntN(len(child.numbers))] = uint16(random.Uint32())
	}
	return child
}

// times is so many of what element makes, from one to ten thousand.
func (g *Genome) times(element func() string) string {
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
func (g *Genome) numbered(format string) string {
	var list []string
	for i := range min([]int{1, 2, 10, 100, 500}[g.pick(5)], 1+largest/len(format)) {
		list = append(list, fmt.Sprintf(format, i))
	}
	return strings.Join(list, ",")
}

// words is a string of one of the kinds that take more or less room decoded.
func (g *Genome) words() string {
	piece := g.of("x", `\n`, `\"`, `\\`, `\u0001`, `\u00e9`, "<", "é", "\u2028", "a\xff", `\ud800`, `{`, " ")
	return `"` + strings.Repeat(piece, []int{0, 0, 1, 2, 16, 1000, 200_000}[g.pick(7)]/len(piece)) + `"`
}

func (g *Genome) chatPart() string {
	return g.of(`{}`, `{"type":"text","text":`+g.words()+`}`, `{"type":"text","text":""}`,
		`{"type":"image_url","image_url":{"url":"`+OnePixel+`"}}`, `{"type":"refusal","refusal":`+g.words()+`}`,
		`{"type":"file","file":`+g.file()+`}`, `[]`, `0`)
}

// file is a file of text, whose escapes come as base64 or in JSON.
func (g *Genome) file() string {
	line := g.of("\n", `"`, "x", "<")
	text := strings.Repeat(line, []int{0, 16, 1000, 200_000}[g.pick(4)])
	return g.of(`{"file_data":"data:,`+g.words()[1:]+`}`,
		`{"filename":"`+strings.Repeat("n", 255)+`","file_data":"data:,"}`,
		`{"file_data":"data:;base64,`+base64.StdEncoding.EncodeToString([]byte(text))+`"}`)
}

func (g *Genome) chatMessage() string {
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
		return `{"role":"assistant","tool_calls":[` +
			g.numbered(`{"id":"%d","function":{"name":"b","arguments":`+strings.ReplaceAll(g.words(), "%",
				"")+`}}`) + `]}`
	case 5:
		return `{"role":"assistant","content":"","function_call":{"name":"a","arguments":` + g.words() +
			`}},{"role":"function","name":"a","content":` + g.words() + `}`
	default:
		return `{"role":"user","name":"a","x":` + g.nest() + `,"content":""}`
	}
}

// nest is deep, or wide.
func (g *Genome) nest() string {
	depth := []int{1, 10, 90, 1000}[g.pick(4)]
	open, end := `[`, `]`
	if g.pick(2) == 0 {
		open, end = `{"a":`, `}`
	}
	return strings.Repeat(open, depth) + g.of("0", "{}", "[]", `""`) + strings.Repeat(end, depth)
}

func (g *Genome) schema() string {
	property := g.of(`{}`, `{"type":"string"}`, `{"enum":["a"]}`, `{"type":"object","properties":{"b":{}}}`,
		`{"not":`+g.nest()+`}`, `{"description":`+g.words()+`}`)
	return `{"type":"object","properties":{` + g.numbered(`"p%d":`+strings.ReplaceAll(property, "%", "")) + `}}`
}

func (g *Genome) function() string {
	return `"name":"f%d","description":` + strings.ReplaceAll(g.words(), "%", "") + `,"parameters":` + g.schema()
}

// Chat is the body of a chat request.
func (g *Genome) Chat() string {
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

// Completion is the body of a request for a completion.
func (g *Genome) Completion() string {
	body := `{"model":"demo","prompt":` + g.of(g.words(), `[`+g.words()+`]`, `[`+g.times(g.words)+`]`, g.nest())
	switch g.pick(3) {
	case 0:
		body += `,"stop":` + g.of(g.words(), `[`+g.times(g.words)+`]`)
	case 1:
		body += `,` + g.numbered(`"unknown%d":{}`)
	}
	return body + `}`
}

func (g *Genome) item() string {
	part := func() string {
		return g.of(`{}`, `{"type":"input_text","text":`+g.words()+`}`, `{"type":"input_text"}`,
			`{"type":"input_image","image_url":"`+OnePixel+`"}`, `{"type":"refusal","refusal":`+g.words()+`}`,
			strings.Replace(g.file(), "{", `{"type":"input_file",`, 1))
	}
	switch g.pick(9) {
	case 0:
		return `{}`
	case 1:
		return `{"role":"user","content":` + g.words() + `}`
	case 2:
		return `{"role":` + g.of(`"user"`, `"assistant"`, `"system"`) + `,"content":[` + g.times(part) + `]}`
	case 3:
		return `{"type":"function_call","call_id":"a","name":"b","arguments":` + g.words() +
			`},{"type":"function_call_output","call_id":"a","output":` + g.words() + `}`
	case 4:
		return `{"type":"custom_tool_call","call_id":"a","name":"b","input":` + g.words() +
			`},{"type":"custom_tool_call_output","call_id":"a","output":[` + g.times(part) + `]}`
	case 5:
		return `{"type":"reasoning","encrypted_content":"x","summary":[` +
			g.times(func() string { return `{"type":"summary_text","text":` + g.words() + `}` }) + `]}`
	case 6:
		return `{"type":"additional_tools","tools":[` + g.numbered(`{"type":"function",`+g.function()+`}`) + `]}`
	case 7:
		return `{"type":"tool_search_call","call_id":"a","arguments":` + g.nest() +
			`},{"type":"tool_search_output","call_id":"a","tools":[{"type":"function","name":"z"}]}`
	default:
		return `{"type":"reasoning","summary":` + g.nest() + `}`
	}
}

// Response is the body of a request for a response.
func (g *Genome) Response() string {
	body := `{"model":"demo","input":[` + g.times(g.item) + `]`
	switch g.pick(7) {
	case 0:
		body += `,"tools":[` + g.numbered(`{"type":"function",`+g.function()+`}`) + `]`
	case 1:
		body += `,"tools":[` +
			g.numbered(`{"type":"custom","name":"c%d","format":{"type":"grammar","definition":`+strings.ReplaceAll(g.words(), "%", "")+`}}`) + `]`
	case 2:
		body += `,"tools":[{"type":"namespace","name":"n","tools":[` +
			g.numbered(`{"type":"function",`+g.function()+`}`) + `]}]`
	case 3:
		body += `,"instructions":` + g.words()
	case 4:
		body += `,"text":{"format":{"type":"json_schema","name":"a","schema":` + g.schema() + `}}`
	case 5:
		body += `,"metadata":{` + g.numbered(`"m%d":""`) + `},"include":[` +
			g.times(func() string { return `"x"` }) + `]`
	}
	return body + `}`
}

// The bodies of the search are of so many bytes, less are not noticed beside those that
// the program has anyway.
const noticed, largest = 16 << 10, 256 << 10

// retained is how many bytes stay of a body that was taken in.
func retained(body []byte, takeIn TakeIn) int64 {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	sent := slices.Clone(body) // nobody needs it after that
	before := heap()
	made, _ := takeIn(sent)
	after := heap()
	runtime.KeepAlive(made)
	return after - before + int64(len(body)) // which is let go of
}

// alive is how many bytes are alive at most while the body is taken in. What the
// collector finds too late is only ever more: the least of several tries is the truth.
func alive(body []byte, takeIn TakeIn) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	least := int64(math.MaxInt64)
	for range 5 {
		least = min(least, aliveOnce(body, takeIn))
	}
	return least
}

func aliveOnce(body []byte, takeIn TakeIn) (most int64) {
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
	made, _ := takeIn(slices.Clone(body))
	close(done)
	<-stopped
	runtime.GC()
	most = max(most, now()-before)
	runtime.KeepAlive(made)
	return most
}

// TakeIn decodes a body and plans its turn, and returns everything that stays, with the
// footprint of the turn.
type TakeIn func(body []byte) (made []any, footprint int64)

// WorstBody searches for the body that takes most memory beside its charge, by the bytes
// that stay, which are the same in each run. It fails if more than a quarter beyond the
// charge stays, or more than a half is alive at a time: a long schema exists in its original
// form, too, and the collector finds some garbage late.
func WorstBody(t *testing.T, generate func(*Genome) string, takeIn TakeIn) {
	t.Helper()
	body := func(g *Genome) []byte {
		g.at = 0
		return []byte(generate(g))
	}
	random := rand.New(rand.NewPCG(1, 2))
	type found struct {
		*Genome
		ratio float64
	}
	judge := func(g *Genome) found {
		body := body(g)
		bytes, _, err := limits.Weigh(body)
		if err != nil || len(body) < noticed || len(body) > largest {
			return found{g, 0}
		}
		return found{g, float64(retained(body, takeIn)) / float64(bytes)}
	}
	var best []found
	keep := func(f found) {
		best = append(best, f)
		slices.SortFunc(best, func(a, b found) int { return int(1000 * (b.ratio - a.ratio)) })
		best = best[:min(len(best), 10)]
	}
	for range nightly.Or(60, 20) {
		g := &Genome{numbers: make([]uint16, 48)}
		for i := range g.numbers {
			g.numbers[i] = uint16(random.Uint32())
		}
		keep(judge(g))
	}
	for range nightly.Or(100, 40) {
		keep(judge(best[random.IntN(len(best))].mutated(random)))
	}
	for _, f := range best {
		body := body(f.Genome)
		bytes, w, _ := limits.Weigh(body)
		_, footprint := takeIn(slices.Clone(body))
		shown := string(body[:min(len(body), 300)])
		live := alive(body, takeIn)
		t.Logf("%.2f stay: %d bytes, %d elements, %d items: counted %d, alive %d, %s", f.ratio, len(body),
			w.Elements, w.Items, bytes, live, shown)
		assert.LessOrEqual(t, f.ratio, 1.25, shown)
		assert.LessOrEqual(t, footprint, bytes, shown)
		assert.LessOrEqual(t, live, bytes+bytes/2+noticed, shown)
	}
}
