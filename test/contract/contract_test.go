package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compiled(t *testing.T) *Schema {
	t.Helper()
	s, err := Compile()
	require.NoError(t, err)
	return s
}

// change is an edit of a good stream, and a part of the expected error.
type change struct{ old, fresh, want string }

// each judges every change of a good stream.
func each(t *testing.T, good string, changes map[string]change, judge func(string) error) {
	t.Helper()
	require.NoError(t, judge(good))
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, good, c.old)
			assert.ErrorContains(t, judge(strings.Replace(good, c.old, c.fresh, 1)), c.want)
		})
	}
}

const goodChat = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

: keepalive

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}

data: [DONE]

`

func TestChatStream(t *testing.T) {
	s := compiled(t)
	answers, err := s.ChatStream(strings.NewReader(goodChat), 1)
	require.NoError(t, err)
	assert.Equal(t, []Answer{{ID: "c", Model: "m", Text: "hi", Calls: []Call{{"call_1", "f", "{}"}},
		Finish: "tool_calls", Tokens: 3, Done: true}}, answers)

	each(t, goodChat, map[string]change{
		"an unknown field":  {`"content":"hi"`, `"contents":"hi"`, "contents"},
		"a missing field":   {`"created":1,`, ``, "created"},
		"another id":        {"\n\ndata: {\"id\":\"c\"", "\n\ndata: {\"id\":\"d\"", "change"},
		"no role":           {`"role":"assistant",`, ``, "role"},
		"the role again":    {`"content":"hi"`, `"role":"assistant"`, "role"},
		"a call without id": {`"id":"call_1",`, ``, "out of order"},
		"a call that jumps": {`"index":0,"function":{"arguments":"{}"}`,
			`"index":1,"function":{"arguments":"{}"}`, "out of order"},
		"another finish": {`"tool_calls"}]}`, `"stop"}]}`, "finish_reason"},
		"no finish": {`"delta":{},"finish_reason":"tool_calls"`, `"delta":{},"finish_reason":null`,
			"without finish_reason"},
		"no end":   {"data: [DONE]\n\n", "", "ends in [DONE]"},
		"two ends": {"data: [DONE]\n\n", "data: [DONE]\n\ndata: [DONE]\n\n", "after the end"},
		"an error and the end": {"data: [DONE]", `data: {"error":{"message":"m","type":"t","param":null,"code":"c"}}` +
			"\n\ndata: [DONE]", "after the end"},
		"a bad error":       {"data: [DONE]", `data: {"error":{"message":"m"}}`, "missing properties"},
		"cut amid an event": {"data: [DONE]\n\n", "data: [DONE]", "amid"},
		"a second line":     {"data: [DONE]\n", "data: [DONE]\ndata: x\n", "no line"},
	}, func(stream string) error {
		_, err := s.ChatStream(strings.NewReader(stream), 1)
		return err
	})
}

func TestChatStreamThatFails(t *testing.T) {
	before, _, _ := strings.Cut(goodChat, `data: `+
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls"`)
	answers, err := compiled(t).ChatStream(strings.NewReader(before+`data: `+
		`{"error":{"message":"m","type":"t","param":null,"code":"c","retryable":true}}`+"\n\n"), 1)
	require.NoError(t, err)
	assert.Equal(t, &Failure{Message: "m", Type: "t", Code: "c"}, answers[0].Failure)
	assert.Equal(t, "hi", answers[0].Text)
	assert.False(t, answers[0].Done)
}

const responseHead = `{"id":"r","object":"response","access_programs":null,"created_at":1,"error":null,` +
	`"incomplete_details":null,"instructions":null,"metadata":{},"model":"m","parallel_tool_calls":true,"temperature":null,` +
	`"tool_choice":"auto","tools":[],"top_p":null,"store":true,"user":null,`

const (
	doneMessage = `{"id":"i","type":"message","role":"assistant","status":"completed",` +
		`"content":[{"type":"output_text","text":"hi","annotations":[]}]}`
	doneCall = `{"id":"f","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{}"}`
)

// goodResponse are the events by type and data without type and number.
var goodResponse = [][2]string{
	{"response.created", `"response":` + responseHead + `"status":"in_progress","output":[]}`},
	{"response.in_progress", `"response":` + responseHead + `"status":"in_progress","output":[]}`},
	{"response.output_item.added",
		`"output_index":0,"item":{"id":"i","type":"message","role":"assistant","status":"in_progress","content":[]}`},
	{"response.content_part.added",
		`"output_index":0,"item_id":"i","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`},
	{"response.output_text.delta", `"output_index":0,"item_id":"i","content_index":0,"delta":"h","logprobs":[]`},
	{"response.output_text.delta", `"output_index":0,"item_id":"i","content_index":0,"delta":"i","logprobs":[]`},
	{"response.output_text.done", `"output_index":0,"item_id":"i","content_index":0,"text":"hi","logprobs":[]`},
	{"response.content_part.done",
		`"output_index":0,"item_id":"i","content_index":0,"part":{"type":"output_text","text":"hi","annotations":[]}`},
	{"response.output_item.done", `"output_index":0,"item":` + doneMessage},
	{"response.output_item.added",
		`"output_index":1,"item":{"id":"f","type":"function_call","status":"in_progress",` +
			`"call_id":"call_1","name":"f","arguments":""}`},
	{"response.function_call_arguments.delta", `"output_index":1,"item_id":"f","delta":"{}"`},
	{"response.function_call_arguments.done", `"output_index":1,"item_id":"f","arguments":"{}"`},
	{"response.output_item.done", `"output_index":1,"item":` + doneCall},
	{"response.completed", `"response":` + responseHead + `"status":"completed","output":[` + doneMessage + `,` +
		doneCall + `]}`},
}

func stream(events [][2]string) string {
	var b strings.Builder
	for i, e := range events {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", e[0], e[0], i, e[1])
	}
	return b.String()
}

func TestResponseStream(t *testing.T) {
	s := compiled(t)
	good := stream(goodResponse)
	answer, err := s.ResponseStream(strings.NewReader(good))
	require.NoError(t, err)
	assert.Equal(t, Answer{ID: "r", Model: "m", Text: "hi", Calls: []Call{{"call_1", "f", "{}"}}, Finish: "completed"},
		answer)

	each(t, good, map[string]change{
		"an unknown event": {"event: response.output_text.delta\n", "event: response.text.delta\n", "no event"},
		"another name": {"event: response.output_text.delta\n",
			"event: response.output_text.done\n", "value must be"},
		"an unknown field": {`"delta":"h"`, `"delta":"h","x":1`, "additional properties 'x'"},
		"a missing field":  {`,"logprobs":[]`, ``, "logprobs"},
		"a missing number": {`"sequence_number":4`, `"sequence_number":5`, "number 5 and not 4"},
		"a lost delta":     {`"delta":"h"`, `"delta":""`, "2 bytes, 1 of them"},
		"another item":     {`"item_id":"i"`, `"item_id":"j"`, `item 0 is "i"`},
		"a closed item":    {`"output_index":1,"item_id":"f"`, `"output_index":0,"item_id":"i"`, "not open"},
		"an item out of order": {`"output_index":0,"item":{"id":"i"`,
			`"output_index":1,"item":{"id":"i"`, "item 1 after -1"},
		"another done": {doneMessage, strings.Replace(doneMessage, "hi", "ho", 1), "part 0 differs from its events"},
		"another output": {`"output":[` + doneMessage, `"output":[` + strings.Replace(doneMessage, "hi", "ho", 1),
			"is not what was done"},
		"no output": {`"output":[` + doneMessage + `,` + doneCall + `]`, `"output":[]`,
			"2 done, 0 in the response"},
		"another response": {`"response":` + responseHead + `"status":"completed"`,
			`"response":` + strings.Replace(responseHead, `"r"`, `"s"`, 1) + `"status":"completed"`, "not"},
		"done at once": {`"status":"in_progress","content":[]`,
			`"status":"completed","content":[]`, "not completed"},
	}, func(stream string) error {
		_, err := s.ResponseStream(strings.NewReader(stream))
		return err
	})
	_, err = s.ResponseStream(strings.NewReader(stream(goodResponse[:9])))
	assert.ErrorContains(t, err, "without a final response")
	_, err = s.ResponseStream(strings.NewReader(stream(goodResponse[:7]) + stream(goodResponse[13:])))
	assert.Error(t, err)
}

func TestResponseThatFails(t *testing.T) {
	s := compiled(t)
	failed := [2]string{"response.failed", `"response":` +
		strings.Replace(responseHead, `"error":null`, `"error":{"code":"server_error","message":"m"}`, 1) +
		`"status":"failed","output":[]}`}
	answer, err := s.ResponseStream(strings.NewReader(stream(append(goodResponse[:5:5], failed))))
	require.NoError(t, err)
	assert.Equal(t, &Failure{Message: "m", Code: "server_error"}, answer.Failure)
	assert.Equal(t, "failed", answer.Finish)

	alert := [2]string{"error", `"code":"server_error","message":"m","param":null,` +
		`"error":{"message":"m","type":"t","param":null,"code":"server_error","retryable":true}`}
	alerted := stream(append(goodResponse[:5:5], alert, failed))
	answer, err = s.ResponseStream(strings.NewReader(alerted))
	require.NoError(t, err)
	assert.Equal(t, &Failure{Message: "m", Type: "t", Code: "server_error"}, answer.Alert)
	for old, fresh := range map[string]string{
		`"param":null,"error"`:         `"param":"p","error"`,
		`"error":{"message":"m","t`:    `"error":{"message":"n","t`,
		`,"code":"server_error","ret`:  `,"code":"x","ret`,
		`{"code":"server_error","mes`:  `{"code":"invalid_prompt","mes`,
		`"param":null,"error":{"mess`:  `"error":{"mess`,
		"event: response.failed\ndata": "event: response.completed\ndata",
	} {
		require.Contains(t, alerted, old)
		_, err = s.ResponseStream(strings.NewReader(strings.Replace(alerted, old, fresh, 1)))
		require.Error(t, err, "%s", fresh)
	}
	_, err = s.ResponseStream(strings.NewReader(stream(append(goodResponse[:5:5], alert, goodResponse[5]))))
	require.ErrorContains(t, err, "after error")

	failed[1] = strings.Replace(failed[1], "server_error", "made_up", 1)
	_, err = s.ResponseStream(strings.NewReader(stream(append(goodResponse[:5:5], failed))))
	assert.ErrorContains(t, err, "code")
}
