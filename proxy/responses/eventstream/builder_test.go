package eventstream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

func counter() func(string) string {
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%s%d", prefix, n)
	}
}

func builder(t *testing.T, body string) *Builder {
	t.Helper()
	req, err := wire.Decode([]byte(body), jsonbody.Reading{})
	require.NoError(t, err)
	return New(req, req.Blank("resp_1", 5), "mark:", counter())
}

const everything = `{"model":"m","input":"x","reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],
	"tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"},{"type":"tool_search",
	"execution":"client"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]}]}`

func kindsOf(events []Event) (list []string) {
	for _, e := range events {
		list = append(list, strings.TrimPrefix(e.Type, "response."))
	}
	return list
}

func TestResponseEvents(t *testing.T) {
	b := builder(t, everything)
	var all []Event
	step := func(events []Event, want ...string) {
		t.Helper()
		assert.Equal(t, want, kindsOf(events))
		all = append(all, events...)
	}
	step(b.Reasoning("r", 0, "th"), "created", "in_progress", "output_item.added", "reasoning_summary_part.added",
		"reasoning_summary_text.delta")
	step(b.Reasoning("r", 0, "ink"), "reasoning_summary_text.delta")
	step(b.Reasoning("r", 1, "more"), "reasoning_summary_text.done", "reasoning_summary_part.done",
		"reasoning_summary_part.added", "reasoning_summary_text.delta")
	step(
		b.Item(
			json.RawMessage(
				`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"think"},`+
					`{"type":"summary_text","text":"more"}],"encrypted_content":"secret"}`)),
		"reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done")
	step(b.Text("m", "he"), "output_item.added", "content_part.added", "output_text.delta")
	step(b.Item(json.RawMessage(
		`{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello"}]}`)),
		"output_text.delta", "output_text.done", "content_part.done", "output_item.done")
	step(b.Item(
		json.RawMessage(`{"type":"function_call","id":"c1","name":"f","call_id":"call_1","arguments":"{\"a\":1}"}`)),
		"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done")
	step(b.Item(json.RawMessage(`{"type":"function_call","name":"ns__f","call_id":"call_2","arguments":"{}"}`)),
		"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done")
	step(b.Item(json.RawMessage(
		`{"type":"function_call","name":"patch","call_id":"call_3","arguments":"{\"input\":\"*** Begin\"}"}`)),
		"output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done")
	step(b.Item(json.RawMessage(
		`{"type":"function_call","name":"tool_search","call_id":"call_5","arguments":"{\"query\":\"q\"}"}`)),
		"output_item.added", "output_item.done")
	step(b.Item(json.RawMessage(`{"type":"function_call","name":"codex's own","call_id":"call_4","arguments":"{}"}`)))
	step(b.End(openai.FinishToolCalls, &openai.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}, 9), "completed")

	for i, e := range all {
		assert.Equal(t, i, e.SequenceNumber)
	}
	last := *all[len(all)-1].Response
	assert.Equal(t, b.Response(), last)
	data, err := json.Marshal(last.Output)
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"think"},{"type":"summary_text",
		"text":"more"}],"encrypted_content":"mark:secret"},
		{"type":"message","id":"msg_2","status":"completed","role":"assistant","content":[{"type":"output_text",
		"text":"hello","annotations":[],"logprobs":[]}]},
		{"type":"function_call","id":"fc_3","status":"completed","call_id":"call_1","name":"f","arguments":"{\"a\":1}"},
		{"type":"function_call","id":"fc_4","status":"completed","call_id":"call_2","namespace":"ns","name":"f",
		"arguments":"{}"},
		{"type":"custom_tool_call","id":"ctc_6","status":"completed","call_id":"call_3","name":"patch",
		"input":"*** Begin"},
		{"type":"tool_search_call","id":"tsc_8","status":"completed","call_id":"call_5","execution":"client",
		"arguments":{"query":"q"}}]`, string(data))
	assert.Equal(t, wire.StatusCompleted, last.Status)
	assert.Equal(t, int64(9), *last.CompletedAt)
	assert.Equal(t, int64(10), last.Usage.TotalTokens)
	assert.Equal(t, wire.StatusInProgress, all[0].Response.Status, "later events do not change it")
	assert.Empty(t, all[0].Response.Output)
}

func TestResponseEndings(t *testing.T) {
	for name, tc := range map[string]struct {
		end      func(*Builder) []Event
		status   string
		last     string
		contains string
	}{
		"length": {func(b *Builder) []Event { return b.End(openai.FinishLength, nil, 9) }, wire.StatusIncomplete,
			"incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`},
		"filter": {func(b *Builder) []Event { return b.End(openai.FinishContentFilter, nil, 9) },
			wire.StatusIncomplete, "incomplete", `"incomplete_details":{"reason":"content_filter"}`},
		"cancel": {func(b *Builder) []Event { return b.Cancel(nil) }, wire.StatusCancelled, "incomplete",
			`"incomplete_details":null`},
		"quota": {func(b *Builder) []Event {
			return b.Fail(&openai.Error{Type: openai.TypeQuota, Message: "m"}, nil, false)
		}, wire.StatusFailed, "failed", `"error":{"code":"insufficient_quota","message":"m"}`},
		"rate": {func(b *Builder) []Event { return b.Fail(openai.RateLimited("m", 1), nil, false) },
			wire.StatusFailed, "failed", `"error":{"code":"rate_limit_exceeded","message":"Rate limit reached: m.`},
		"request": {func(b *Builder) []Event { return b.Fail(openai.Invalid("c", "p", "m"), nil, false) },
			wire.StatusFailed, "failed", `"error":{"code":"invalid_prompt","message":"m"}`},
		"length of the input": {
			func(b *Builder) []Event {
				return b.Fail(openai.Invalid(openai.CodeContextLength, "input", "m"), nil, false)
			}, wire.StatusFailed, "failed", `"error":{"code":"context_length_exceeded","message":"m"}`,
		},
		"worker": {func(b *Builder) []Event { return b.Fail(openai.Unavailable("c", "m", 0), nil, false) },
			wire.StatusFailed, "failed", `"error":{"code":"server_error","message":"m"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := builder(t, everything)
			b.Text("m", "half")
			events := tc.end(b)
			assert.Equal(t, []string{"output_text.done", "content_part.done", "output_item.done", tc.last},
				kindsOf(events))
			data, err := json.Marshal(b.Response())
			require.NoError(t, err)
			assert.Contains(t, string(data), `"status":"`+tc.status+`"`)
			assert.Contains(t, string(data), tc.contains)
			assert.Equal(t, wire.StatusIncomplete, b.Response().Output[0].Status)
			assert.Equal(t, "half", *b.Response().Output[0].Text)

			b = builder(t, everything)
			assert.Equal(t, []string{"created", "in_progress", tc.last}, kindsOf(tc.end(b)),
				"even if nothing came before")
		})
	}
}

// The event error has the failure twice, flat and nested, with one code; nothing else of a response has its fields.
func TestEventError(t *testing.T) {
	b := builder(t, everything)
	text := b.Text("m", "half")
	events := b.Fail(openai.Invalid("c", "p", "m"), nil, true)
	assert.Equal(t, []string{"output_text.done", "content_part.done", "output_item.done", "error", "failed"},
		kindsOf(events))
	failed := len(text) + 4
	data, err := json.Marshal(events[3])
	require.NoError(t, err)
	assert.JSONEq(t, fmt.Sprintf(`{"type":"error","sequence_number":%d,"code":"invalid_prompt","message":"m","param":"p",`+
		`"error":{"message":"m","type":"invalid_request_error","param":"p","code":"invalid_prompt"}}`, failed-1), string(data))
	assert.Equal(t, failed, events[4].SequenceNumber)
	for _, e := range append(text, events[4]) {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		assert.NotRegexp(t, `^\{[^{]*"(code|message|param)":`, string(data))
	}
}

func TestReasoningIsShownToWhoAsks(t *testing.T) {
	b := builder(t, `{"model":"m","input":"x"}`)
	assert.Equal(t, []string{"created", "in_progress"}, kindsOf(b.Reasoning("r", 0, "think")))
	assert.Equal(t, []string{"output_item.added", "output_item.done"},
		kindsOf(b.Item(json.RawMessage(
			`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"think"}],`+
				`"encrypted_content":"secret"}`))))
	data, err := json.Marshal(b.Response().Output)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"type":"reasoning","id":"rs_1","summary":[]}]`, string(data))
	assert.Equal(t, "mark:secret", b.FullOutput()[0].Encrypted)
}

// For any events of a turn, in any order, the events of the response build up the final response, one item at a time,
// numbered without gaps.
func TestResponseEventsAddUp(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := builder(t, everything)
		var events []Event
		for range random.IntN(30) {
			source := fmt.Sprint(random.IntN(4))
			switch random.IntN(5) {
			case 0:
				events = append(events, b.Reasoning("r"+source, random.IntN(3), strings.Repeat("é", random.IntN(3)))...)
			case 1:
				events = append(events, b.Item(json.RawMessage(
					`{"type":"message","id":"m`+source+`","content":[{"type":"output_text","text":"whole"}]}`))...)
			case 2:
				events = append(events, b.Item(json.RawMessage(
					`{"type":"reasoning","id":"r`+source+`","summary":[{"type":"summary_text","text":"whole"}]}`))...)
			case 3:
				events = append(events, b.Item(json.RawMessage(
					`{"type":"function_call","id":"c`+source+`","name":"f","call_id":"x","arguments":"{}"}`))...)
			default:
				events = append(events, b.Text("m"+source, strings.Repeat("🙂", random.IntN(3)))...)
			}
		}
		events = append(events, b.End(openai.FinishStop, nil, 1)...)
		requireSound(t, events, b.Response(), seed)
	}
}

func requireSound(t *testing.T, events []Event, final wire.Response, seed uint64) {
	t.Helper()
	open, text, done := "", "", 0
	for i, e := range events {
		require.Equal(t, i, e.SequenceNumber, "seed %d", seed)
		switch e.Type {
		case "response.output_item.added":
			require.Empty(t, open, "seed %d", seed)
			require.Equal(t, done, *e.OutputIndex)
			open, text = e.Item.ID, ""
		case "response.output_text.delta":
			require.Equal(t, open, e.ItemID)
			text += *e.Delta
		case "response.output_text.done":
			require.Equal(t, text, *e.Text)
		case "response.reasoning_summary_part.added":
			text = ""
		case "response.reasoning_summary_text.delta":
			text += *e.Delta
		case "response.reasoning_summary_text.done":
			require.Equal(t, text, *e.Text)
		case "response.output_item.done":
			require.Equal(t, open, e.Item.ID)
			require.Equal(t, final.Output[done], *e.Item, "seed %d", seed)
			open = ""
			done++
		}
	}
	require.Len(t, final.Output, done)
	require.Equal(t, "response.completed", events[len(events)-1].Type)
}
