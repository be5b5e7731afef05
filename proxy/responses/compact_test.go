package responses_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/test/contract"
)

// summarizer says a summary when it is asked for one, and tells what it is asked.
func summarizer(given chan<- appservertest.Request) func(context.Context, *appservertest.Turn) error {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		items := turn.Request.Items
		if !strings.Contains(string(items[len(items)-1]), "about to be compacted") {
			return apitest.Thinker(ctx, turn)
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)}, apitest.Keeping(t))
	got := r.Compact(t, apitest.Asked(`"instructions":"Be kind.","tools":[{"type":"function","name":"look"}],`, long))
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
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+got.ID, "").StatusCode,
		"nothing is stored")

	first := r.Whole(t, apitest.Asked("", got.Input("q3")))
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
	r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q4"`))
	continued()
	list := apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID+"/input_items", ""))
	assert.Contains(t, list, `"encrypted_content":"codex-proxy-compaction-1:`)
}

// What was compacted is compacted again, with all that came after it. Standing messages are kept once.
func TestCompactAgain(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("", long))
	<-given
	got := r.Compact(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `[{"role":"user","content":"q3"}]`))
	require.Len(t, got.Output, 4)
	assert.Len(t, (<-given).Items, 10, "with the answer and its reasoning")
	input := strings.TrimSuffix(got.Input("q4"), "]") + `,{"role":"system","content":"Be brief."}]`
	again := r.Compact(t, apitest.Asked("", input))
	require.Len(t, again.Output, 5)
	assert.Equal(t, 1, strings.Count(joinedItems((<-given).Items), "Be brief."), "the input has it, too")
	r.Whole(t, apitest.Asked("", again.Input("q5")))
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)})
	big := strings.Repeat("word ", 40<<10)
	got := r.Compact(t, apitest.Asked("", `[{"role":"user","content":"q1"},{"role":"user","content":"`+big+`"},
		{"role":"user","content":"`+big+`"},{"role":"user","content":"q2"}]`))
	require.Len(t, got.Output, 3)
	assert.Contains(t, string(got.Output[1]), `"text":"q2"`)
	assert.Len(t, (<-given).Items, 5, "the model gets them all")
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

func TestCompactFails(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(" \n")
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
		return nil
	}})
	resp := r.Compacting(t, apitest.Asked("", `[{"role":"developer","content":"`+strings.Repeat("x", wire.MaxCompacted)+`"}]`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "no turn is spent on it")
	resp = r.Compacting(t, apitest.Asked("", `"q"`))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Equal(t, "compaction_failed", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	for body, want := range map[string][2]string{
		`{"input":"q"}`:                               {"model_required", "model"},
		`{"model":"demo"}`:                            {"input_required", "input"},
		apitest.Asked(`"stream":true,`, `"q"`):        {"unsupported_parameter", "stream"},
		apitest.Asked(`"conversation":"c",`, `"q"`):   {"unsupported_parameter", "conversation"},
		apitest.Asked(`"nonsense":true,`, `"q"`):      {"unknown_parameter", "nonsense"},
		apitest.Asked(`"prompt_cache_key":7,`, `"q"`): {"invalid_type", "prompt_cache_key"},
	} {
		resp := r.Compacting(t, body)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
		assert.Equal(t, want[0], e.Code, body)
		if assert.NotNil(t, e.Param, body) {
			assert.Equal(t, want[1], *e.Param, body)
		}
	}
}

// Content of other servers, and content that was changed, is refused with the place and the reason.
func TestCompactionsThatCannotBeRead(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	content, ok := wire.Compacted{Summary: "s"}.Encode()
	require.True(t, ok)
	changed := content[:len(content)-4] + "AAAA"
	for _, tc := range [][2]string{
		{"gAAAAABo", "was not made by"}, {"codex-proxy-compaction-2:AAAA", "another version"}, {changed, "changed"},
		{content[:len(content)-8], "cut off"}, {"codex-proxy-compaction-1:", "cut off"}, {"codex-proxy-compaction-1:é", "cut off"},
	} {
		resp := r.Responding(t, apitest.Asked("",
			`[{"role":"user","content":"q"},{"type":"compaction","encrypted_content":"`+tc[0]+`"}]`))
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "invalid_encrypted_content", e.Code)
		assert.Equal(t, "input[1].encrypted_content", *e.Param)
		assert.Contains(t, e.Message, tc[1])
	}
	resp := r.Responding(t, apitest.Asked("", `[{"type":"compaction"}]`))
	assert.Equal(t, "field_required", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	r.Whole(t, apitest.Asked("", `[{"type":"compaction","encrypted_content":"`+content+`"}]`))
}

// A response whose input ends in a compaction_trigger is a compaction, as the codex CLI asks for one.
func TestCompactionTrigger(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)}, apitest.Keeping(t))
	triggering := strings.TrimSuffix(long, "]") + `,{"type":"compaction_trigger"}]`
	const tools = `"tools":[{"type":"function","name":"look","parameters":{},"strict":false}],`
	resp := r.Responding(t, apitest.Asked(`"stream":true,"store":false,"reasoning":{"summary":"auto"},`+tools, triggering))
	stream := apitest.Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, stream)
	schema, err := contract.Compile()
	require.NoError(t, err)
	var types []string
	for _, e := range apitest.Events(t, stream) {
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

	done := apitest.Events(t, stream)[4].Response
	require.Len(t, done.Output, 1)
	assert.Equal(t, "compaction", done.Output[0].Type)
	back := strings.TrimSuffix(long, "]") + `,{"type":"compaction","encrypted_content":"` + done.Output[0].Encrypted +
		`"},{"role":"user","content":"q3"}]`
	r.Whole(t, apitest.Asked("", back))
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("", long))
	second := r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `[{"type":"compaction_trigger"}]`))
	require.Len(t, second.Output, 1)
	assert.Equal(t, "compaction", second.Output[0].Type)
	<-given
	assert.Contains(t, joinedItems((<-given).Items), "seen")
	third := r.Whole(t, apitest.Asked(`"previous_response_id":"`+second.ID+`",`, `"q3"`))
	for range 2 {
		items := (<-given).Items
		all := joinedItems(items)
		assert.Regexp(t, `(?s)q1.*q2.*Be brief\..*the summary.*q3`, all)
		assert.NotContains(t, all, "seen")
		assert.NotContains(t, all, "a1")
		if third.ID != "" {
			r.Whole(t, apitest.Asked(`"previous_response_id":"`+third.ID+`",`, `"q4"`))
			third.ID = ""
		}
	}
	list := apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+second.ID+"/input_items", ""))
	assert.Contains(t, list, "seen", "the store keeps all items")
}

func TestCompactionTriggerFails(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(" ")
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
		return nil
	}}, apitest.Keeping(t))
	const trigger = `{"type":"compaction_trigger"}`
	resp := r.Responding(t, apitest.Asked("", `[{"role":"user","content":"q"},`+trigger+`]`))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Equal(t, "compaction_failed", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	stream := apitest.Text(t, r.Responding(t, apitest.Asked(`"stream":true,`, `[{"role":"user","content":"q"},`+trigger+`]`)))
	assert.Contains(t, stream, "event: response.failed\n")
	assert.Contains(t, stream, "the model wrote no summary")
	_, id := r.Talk(t, `{}`)
	for _, tc := range []struct{ path, body, param, code string }{
		{"responses", apitest.Asked("", `[`+trigger+`,{"role":"user","content":"q"}]`), "input[0].type", "invalid_value"},
		{"responses", apitest.Asked("", `[`+trigger+`]`), "input", "input_required"},
		{"conversations/" + id + "/items", `{"items":[{"role":"user","content":"q"},` + trigger + `]}`, "items[1].type",
			"unsupported_parameter"},
	} {
		resp := r.Do(t, http.MethodPost, "/v1/"+tc.path, tc.body)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		require.NotNil(t, e.Param, e.Message)
		assert.Equal(t, tc.param, *e.Param)
		assert.Equal(t, tc.code, e.Code)
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A conversation goes on from its last compaction, and a compacted input is counted as the model gets it.
func TestCompactedConversation(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := apitest.NewRig(t, &appservertest.Server{Handler: summarizer(given)}, apitest.Keeping(t))
	_, id := r.Talk(t, `{"items":`+long+`}`)
	in := `"conversation":"` + id + `",`
	before := r.CountInput(t, apitest.Asked(in, `"q3"`))
	r.Whole(t, apitest.Asked(in, `[{"type":"compaction_trigger"}]`))
	assert.Contains(t, joinedItems((<-given).Items), "seen")
	after := r.CountInput(t, apitest.Asked(in, `"q3"`))
	r.Whole(t, apitest.Asked(in, `"q3"`))
	items := joinedItems((<-given).Items)
	assert.Regexp(t, `(?s)q1.*q2.*Be brief\..*the summary.*q3`, items)
	assert.NotContains(t, items, "seen")
	assert.NotEqual(t, before, after)

	content, ok := wire.Compacted{Summary: strings.Repeat(" word", 1000)}.Encode()
	require.True(t, ok)
	item := `{"type":"compaction","encrypted_content":"` + content + `"}`
	one, two := r.CountInput(t, apitest.Asked("", "["+item+"]")), r.CountInput(t, apitest.Asked("", "["+item+","+item+"]"))
	assert.InDelta(t, 1000, two-one, 50, "a word is a token")
}
