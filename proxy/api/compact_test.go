package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/openai"
	"codex-proxy/test/contract"
)

// compacted is a compacted conversation.
type compacted struct {
	ID     string
	Object string
	Output []json.RawMessage
	Usage  struct {
		Total int `json:"total_tokens"`
	}
}

func (r *rig) compacting(t *testing.T, body string) *http.Response {
	t.Helper()
	return r.do(t, http.MethodPost, "/v1/responses/compact", body)
}

func (r *rig) compact(t *testing.T, body string) compacted {
	t.Helper()
	resp := r.compacting(t, body)
	answer := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	schema, err := contract.Compile()
	require.NoError(t, err)
	require.NoError(t, schema.Check(contract.Compaction, []byte(answer)))
	return read[compacted](t, answer)
}

// input is the compacted conversation as the input of a request, with one more question.
func (c compacted) input(question string) string {
	items := make([]string, 0, len(c.Output))
	for _, item := range c.Output {
		items = append(items, string(item))
	}
	return "[" + strings.Join(items, ",") + `,{"role":"user","content":"` + question + `"}]`
}

// summarizer says a summary when it is asked for one, and tells what it is asked.
func summarizer(given chan<- appservertest.Request) func(context.Context, *appservertest.Turn) error {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		items := turn.Request.Items
		if !strings.Contains(string(items[len(items)-1]), "about to be compacted") {
			return thinker(ctx, turn)
		}
		turn.Reasoning("hm")
		turn.Text("the sum", "mary")
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 3, Reasoning: 2})
		return nil
	}
}

const long = `[{"role":"developer","content":"Be brief."},{"role":"user","content":"q1"},
	{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}"},
	{"type":"function_call_output","call_id":"call_1","output":"seen"},
	{"role":"assistant","content":"a1"},{"role":"user","content":[{"type":"input_text","text":"q2"}]}]`

func TestCompact(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)}, keeping(t))
	got := r.compact(t, asked(`"instructions":"Be kind.","tools":[{"type":"function","name":"look"}],`, long))
	assert.Equal(t, "response.compaction", got.Object)
	assert.Equal(t, 13, got.Usage.Total)
	require.Len(t, got.Output, 3, "the user's messages, and the compaction")
	assert.Contains(t, string(got.Output[0]), `"text":"q1"`)
	assert.Contains(t, string(got.Output[1]), `"text":"q2"`)
	assert.Contains(t, string(got.Output[2]), `"type":"compaction"`)
	assert.NotContains(t, string(got.Output[2]), "summary", "the content is opaque")
	request := <-given
	assert.Len(t, request.Items, 7)
	assert.Empty(t, request.DynamicTools)
	assert.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/responses/"+got.ID, "").StatusCode,
		"nothing is stored")

	first := r.whole(t, asked("", got.input("q3")))
	continued := func() {
		items := (<-given).Items
		texts := make([]string, 0, len(items))
		for _, i := range items {
			texts = append(texts, string(i))
		}
		all := strings.Join(texts, "\n")
		assert.Regexp(t, `(?s)"user".*q1.*"user".*q2.*"developer".*Be brief\..*"user".*compacted.*the summary.*"user".*q3`, all)
		assert.NotContains(t, all, "seen")
		assert.NotContains(t, all, "codex-proxy-compaction")
	}
	continued()
	r.whole(t, asked(`"previous_response_id":"`+first.ID+`",`, `"q4"`))
	continued()
	list := text(t, r.do(t, http.MethodGet, "/v1/responses/"+first.ID+"/input_items", ""))
	assert.Contains(t, list, `"encrypted_content":"codex-proxy-compaction-1:`)
}

// What was compacted is compacted again, with all that came after it. Standing messages are kept once.
func TestCompactAgain(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)}, keeping(t))
	first := r.whole(t, asked("", long))
	<-given
	got := r.compact(t, asked(`"previous_response_id":"`+first.ID+`",`, `[{"role":"user","content":"q3"}]`))
	require.Len(t, got.Output, 4)
	assert.Len(t, (<-given).Items, 10, "with the answer and its reasoning")
	input := strings.TrimSuffix(got.input("q4"), "]") + `,{"role":"system","content":"Be brief."}]`
	again := r.compact(t, asked("", input))
	require.Len(t, again.Output, 5)
	assert.Equal(t, 1, strings.Count(joinedItems((<-given).Items), "Be brief."), "the input has it, too")
	r.whole(t, asked("", again.input("q5")))
	items := (<-given).Items
	all := ""
	for _, i := range items {
		all += string(i)
	}
	assert.Equal(t, 1, strings.Count(all, "Be brief."))
	assert.Equal(t, 1, strings.Count(all, "the summary"))
}

// Of the user's messages the newest stay, up to a bound.
func TestCompactKeepsTheNewest(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)})
	big := strings.Repeat("word ", 40<<10)
	got := r.compact(t, asked("", `[{"role":"user","content":"q1"},{"role":"user","content":"`+big+`"},
		{"role":"user","content":"`+big+`"},{"role":"user","content":"q2"}]`))
	require.Len(t, got.Output, 3)
	assert.Contains(t, string(got.Output[1]), `"text":"q2"`)
	assert.Len(t, (<-given).Items, 5, "the model gets them all")
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

func TestCompactFails(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(" \n")
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
		return nil
	}})
	resp := r.compacting(t, asked("", `[{"role":"developer","content":"`+strings.Repeat("x", openai.MaxCompacted)+`"}]`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "no turn is spent on it")
	resp = r.compacting(t, asked("", `"q"`))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Equal(t, "compaction_failed", failure(t, text(t, resp)).Error.Code)
	for body, want := range map[string][2]string{
		`{"input":"q"}`:                       {"model_required", "model"},
		`{"model":"demo"}`:                    {"input_required", "input"},
		asked(`"stream":true,`, `"q"`):        {"unsupported_parameter", "stream"},
		asked(`"conversation":"c",`, `"q"`):   {"unsupported_parameter", "conversation"},
		asked(`"nonsense":true,`, `"q"`):      {"unknown_parameter", "nonsense"},
		asked(`"prompt_cache_key":7,`, `"q"`): {"invalid_type", "prompt_cache_key"},
	} {
		resp := r.compacting(t, body)
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
		assert.Equal(t, want[0], e.Code, body)
		if assert.NotNil(t, e.Param, body) {
			assert.Equal(t, want[1], *e.Param, body)
		}
	}
}

// Content of other servers, and content that was changed, is refused with the place and the reason.
func TestCompactionsThatCannotBeRead(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker})
	content, ok := openai.Compacted{Summary: "s"}.Encode()
	require.True(t, ok)
	changed := content[:len(content)-4] + "AAAA"
	for _, tc := range [][2]string{
		{"gAAAAABo", "was not made by"}, {"codex-proxy-compaction-2:AAAA", "another version"}, {changed, "changed"},
		{content[:len(content)-8], "cut off"}, {"codex-proxy-compaction-1:", "cut off"}, {"codex-proxy-compaction-1:é", "cut off"},
	} {
		resp := r.responding(t, asked("",
			`[{"role":"user","content":"q"},{"type":"compaction","encrypted_content":"`+tc[0]+`"}]`))
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "invalid_encrypted_content", e.Code)
		assert.Equal(t, "input[1].encrypted_content", *e.Param)
		assert.Contains(t, e.Message, tc[1])
	}
	resp := r.responding(t, asked("", `[{"type":"compaction"}]`))
	assert.Equal(t, "field_required", failure(t, text(t, resp)).Error.Code)
	r.whole(t, asked("", `[{"type":"compaction","encrypted_content":"`+content+`"}]`))
}

// A response whose input ends in a compaction_trigger is a compaction, as the codex CLI asks for one.
func TestCompactionTrigger(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)}, keeping(t))
	triggering := strings.TrimSuffix(long, "]") + `,{"type":"compaction_trigger"}]`
	const tools = `"tools":[{"type":"function","name":"look","parameters":{},"strict":false}],`
	resp := r.responding(t, asked(`"stream":true,"store":false,"reasoning":{"summary":"auto"},`+tools, triggering))
	stream := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, stream)
	schema, err := contract.Compile()
	require.NoError(t, err)
	var types []string
	for _, e := range events(t, stream) {
		types = append(types, e.Type)
	}
	for frame := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		name, data, _ := strings.Cut(frame, "\ndata: ")
		require.NoError(t, schema.CheckEvent(strings.TrimPrefix(name, "event: "), []byte(data)))
	}
	assert.Equal(t, []string{"response.created", "response.in_progress", "response.output_item.added",
		"response.output_item.done", "response.completed"}, types)
	request := <-given
	assert.Len(t, request.Items, 7)
	assert.Empty(t, request.DynamicTools)

	done := events(t, stream)[4].Response
	require.Len(t, done.Output, 1)
	assert.Equal(t, "compaction", done.Output[0].Type)
	back := strings.TrimSuffix(long, "]") + `,{"type":"compaction","encrypted_content":"` + done.Output[0].Encrypted +
		`"},{"role":"user","content":"q3"}]`
	r.whole(t, asked("", back))
	items := (<-given).Items
	assert.Len(t, items, 8)
	assert.Equal(t, 1, strings.Count(joinedItems(items), "Be brief."), "the client has kept that message itself")
	assert.Contains(t, string(items[6]), "the summary")
}

func joinedItems(items []json.RawMessage) string {
	all := ""
	for _, i := range items {
		all += string(i)
	}
	return all
}

// What continues a stored compaction goes on from it: the model gets the user's messages, and nothing else of before.
func TestContinuedCompaction(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)}, keeping(t))
	first := r.whole(t, asked("", long))
	second := r.whole(t, asked(`"previous_response_id":"`+first.ID+`",`, `[{"type":"compaction_trigger"}]`))
	require.Len(t, second.Output, 1)
	assert.Equal(t, "compaction", second.Output[0].Type)
	<-given
	assert.Contains(t, joinedItems((<-given).Items), "seen")
	third := r.whole(t, asked(`"previous_response_id":"`+second.ID+`",`, `"q3"`))
	for range 2 {
		items := (<-given).Items
		all := joinedItems(items)
		assert.Regexp(t, `(?s)q1.*q2.*Be brief\..*the summary.*q3`, all)
		assert.NotContains(t, all, "seen")
		assert.NotContains(t, all, "a1")
		if third.ID != "" {
			r.whole(t, asked(`"previous_response_id":"`+third.ID+`",`, `"q4"`))
			third.ID = ""
		}
	}
	list := text(t, r.do(t, http.MethodGet, "/v1/responses/"+second.ID+"/input_items", ""))
	assert.Contains(t, list, "seen", "the store keeps all items")
}

func TestCompactionTriggerFails(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(" ")
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
		return nil
	}}, keeping(t))
	const trigger = `{"type":"compaction_trigger"}`
	resp := r.responding(t, asked("", `[{"role":"user","content":"q"},`+trigger+`]`))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Equal(t, "compaction_failed", failure(t, text(t, resp)).Error.Code)
	stream := text(t, r.responding(t, asked(`"stream":true,`, `[{"role":"user","content":"q"},`+trigger+`]`)))
	assert.Contains(t, stream, "event: response.failed\n")
	assert.Contains(t, stream, "the model wrote no summary")
	_, id := r.talk(t, `{}`)
	for _, tc := range []struct{ path, body, param, code string }{
		{"responses", asked("", `[`+trigger+`,{"role":"user","content":"q"}]`), "input[0].type", "invalid_value"},
		{"responses", asked("", `[`+trigger+`]`), "input", "input_required"},
		{"conversations/" + id + "/items", `{"items":[{"role":"user","content":"q"},` + trigger + `]}`, "items[1].type",
			"unsupported_parameter"},
	} {
		resp := r.do(t, http.MethodPost, "/v1/"+tc.path, tc.body)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := failure(t, text(t, resp)).Error
		require.NotNil(t, e.Param, e.Message)
		assert.Equal(t, tc.param, *e.Param)
		assert.Equal(t, tc.code, e.Code)
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A conversation goes on from its last compaction, and a compacted input is counted as the model gets it.
func TestCompactedConversation(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: summarizer(given)}, keeping(t))
	_, id := r.talk(t, `{"items":`+long+`}`)
	in := `"conversation":"` + id + `",`
	before := r.countInput(t, asked(in, `"q3"`))
	r.whole(t, asked(in, `[{"type":"compaction_trigger"}]`))
	assert.Contains(t, joinedItems((<-given).Items), "seen")
	after := r.countInput(t, asked(in, `"q3"`))
	r.whole(t, asked(in, `"q3"`))
	items := joinedItems((<-given).Items)
	assert.Regexp(t, `(?s)q1.*q2.*Be brief\..*the summary.*q3`, items)
	assert.NotContains(t, items, "seen")
	assert.NotEqual(t, before, after)

	content, ok := openai.Compacted{Summary: strings.Repeat(" word", 1000)}.Encode()
	require.True(t, ok)
	item := `{"type":"compaction","encrypted_content":"` + content + `"}`
	one, two := r.countInput(t, asked("", "["+item+"]")), r.countInput(t, asked("", "["+item+","+item+"]"))
	assert.InDelta(t, 1000, two-one, 50, "a word is a token")
}

func (r *rig) countInput(t *testing.T, body string) int {
	t.Helper()
	answer := text(t, r.do(t, http.MethodPost, "/v1/responses/input_tokens", body))
	return read[struct {
		Tokens int `json:"input_tokens"`
	}](t, answer).Tokens
}
