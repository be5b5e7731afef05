package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestItems(t *testing.T) {
	exit := 2
	for text, want := range map[string]Item{
		`{"type":"userMessage","id":"1","content":[{"type":"text","text":"a"},{"type":"image","url":"x"},{"type":"text","text":"b"}]}`: {ID: "1", Kind: "user", Text: "a\n\nb"},
		`{"type":"agentMessage","id":"1","text":"hello"}`:                                                                 {ID: "1", Kind: "agent", Text: "hello"},
		`{"type":"reasoning","id":"1","summary":["a","b"],"content":["secret"]}`:                                          {ID: "1", Kind: "reasoning", Text: "a\nb"},
		`{"type":"commandExecution","id":"1","command":"ls","status":"failed","aggregatedOutput":"no","exitCode":2}`:      {ID: "1", Kind: "command", Text: "ls", Output: "no", Status: "failed", Exit: &exit},
		`{"type":"fileChange","id":"1","status":"completed","changes":[{"path":"/a","kind":{"type":"add"},"diff":"+x"}]}`: {ID: "1", Kind: "change", Text: "/a", Output: "/a\n+x", Status: "completed"},
		`{"type":"mcpToolCall","id":"1","server":"s","tool":"t","status":"completed","arguments":{}}`:                     {ID: "1", Kind: "tool", Text: "s.t", Status: "completed"},
		`{"type":"webSearch","id":"1","query":"q"}`:                                                                       {ID: "1", Kind: "search", Text: "q"},
	} {
		got, shown := itemOf(json.RawMessage(text))
		assert.True(t, shown, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{`{"type":"imageView","id":"1"}`, `{"type":"agentMessage"}`,
		`{"type":"reasoning","id":"1","summary":[]}`, `[]`, `x`} {
		_, shown := itemOf(json.RawMessage(text))
		assert.False(t, shown, text)
	}
	long, _ := itemOf(json.RawMessage(`{"type":"commandExecution","id":"1","command":"` + strings.Repeat("é", maxText) +
		`","aggregatedOutput":"` + strings.Repeat("é", maxOutput) + `"}`))
	assert.LessOrEqual(t, len(long.Text), maxText+len("…"))
	assert.LessOrEqual(t, len(long.Output), maxOutput+len("…"))
	assert.True(t, utf8.ValidString(long.Text+long.Output))
}

func TestQuestions(t *testing.T) {
	q, thread := questionOf("item/commandExecution/requestApproval", json.RawMessage(`{"threadId":"t","itemId":"i",
		"command":"touch x","cwd":"/srv","reason":"why",
		"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{}},"cancel"]}`))
	assert.Equal(t, "t", thread)
	assert.Equal(t, Question{ID: "i", Kind: command, Text: "touch x", Directory: "/srv", Reason: "why",
		Decisions: []string{"accept", "decline"}}, q)
	q, _ = questionOf("item/commandExecution/requestApproval",
		json.RawMessage(`{"threadId":"t","itemId":"i","approvalId":"a"}`))
	assert.Equal(t, "a", q.ID, "one of several of an item")
	assert.Equal(t, decisions, q.Decisions)
	q, _ = questionOf("item/commandExecution/requestApproval",
		json.RawMessage(`{"threadId":"t","itemId":"i","command":"`+strings.Repeat("x", maxText+1)+`"}`))
	assert.Equal(t, []string{"decline"}, q.Decisions, "nobody approves what is not shown")
	q, _ = questionOf("item/tool/requestUserInput", json.RawMessage(`{"threadId":"t","itemId":"i"}`))
	assert.Equal(t, Question{ID: "i", Kind: other, Decisions: []string{}}, q)
	for _, method := range []string{"item/tool/call", "currentTime/read", "account/chatgptAuthTokens/refresh"} {
		q, _ = questionOf(method, json.RawMessage(`{"threadId":"t","itemId":"i"}`))
		assert.Empty(t, q.ID, method)
	}
}

func note(v *view, method, params string) { v.notified(method, json.RawMessage(params)) }

func TestView(t *testing.T) {
	v := newView("t")
	var r resumed
	require.NoError(t, json.Unmarshal([]byte(`{"thread":{"name":"n",
		"status":{"type":"active","activeFlags":["waitingOnApproval"]}},"initialTurnsPage":{"data":[
		{"id":"2","status":"inProgress","items":[{"type":"agentMessage","id":"b","text":"two"}]},
		{"id":"1","status":"completed","items":[{"type":"agentMessage","id":"a","text":"one"}]}]}}`), &r))
	v.begin(r)
	u := v.take()
	assert.Equal(t, Update{Thread: "t", Name: "n", Turn: "2", Waits: true, Questions: []Question{},
		Items: []Item{{ID: "a", Kind: "agent", Text: "one"}, {ID: "b", Kind: "agent", Text: "two"}}}, u)
	assert.Empty(t, v.take().Items, "only changes")

	v.ask("item/fileChange/requestApproval", json.RawMessage(`7`), json.RawMessage(`{"threadId":"t","itemId":"c"}`))
	v.ask("item/fileChange/requestApproval", json.RawMessage(`7`), json.RawMessage(`{"threadId":"t","itemId":"c"}`))
	v.ask("item/fileChange/requestApproval", json.RawMessage(`8`), json.RawMessage(`{"threadId":"another","itemId":"d"}`))
	require.Len(t, v.take().Questions, 1)
	note(v, "serverRequest/resolved", `{"threadId":"t","requestId":7}`)
	note(v, "thread/status/changed", `{"threadId":"t","status":{"type":"active","activeFlags":[]}}`)
	note(v, "thread/status/changed",
		`{"threadId":"another","status":{"type":"active","activeFlags":["waitingOnApproval"]}}`)
	note(v, "item/agentMessage/delta", `{"threadId":"t","itemId":"e","delta":"hel"}`)
	note(v, "item/agentMessage/delta", `{"threadId":"t","itemId":"e","delta":"lo"}`)
	note(v, "item/started", `[]`)
	u = v.take()
	assert.Empty(t, u.Questions)
	assert.False(t, u.Waits)
	assert.Equal(t, []Item{{ID: "e", Kind: "agent", Text: "hello"}}, u.Items)
	note(v, "item/completed", `{"threadId":"t","item":{"type":"agentMessage","id":"e","text":"hello!"}}`)
	note(v, "turn/completed", `{"threadId":"t","turn":{"id":"2"}}`)
	note(v, "thread/name/updated", `{"threadId":"t","threadName":"new"}`)
	u = v.take()
	assert.Equal(t, Update{Thread: "t", Name: "new", Questions: []Question{},
		Items: []Item{{ID: "e", Kind: "agent", Text: "hello!"}}}, u)
}

// A thread that goes on for days, and a codex that asks without an end, take no more memory than a screen.
func TestViewIsBounded(t *testing.T) {
	v := newView("t")
	for i := range 3 * maxItems {
		note(v, "item/completed", fmt.Sprintf(`{"threadId":"t","item":{"type":"agentMessage","id":"%d","text":"x"}}`, i))
		v.ask("item/fileChange/requestApproval", fmt.Append(nil, i), fmt.Appendf(nil, `{"threadId":"t","itemId":"%d"}`, i))
		note(v, "item/agentMessage/delta",
			fmt.Sprintf(`{"threadId":"t","itemId":"%d","delta":"%s"}`, i, strings.Repeat("y", maxText/2)))
	}
	u := v.take()
	assert.Len(t, u.Items, maxItems)
	assert.Len(t, u.Questions, maxQuestions)
	assert.Equal(t, "599", u.Items[maxItems-1].ID)
	for range 10 {
		note(v, "item/agentMessage/delta", `{"threadId":"t","itemId":"599","delta":"`+strings.Repeat("y", maxText)+`"}`)
	}
	assert.LessOrEqual(t, len(v.take().Items[0].Text), maxText+len("……"))
}
