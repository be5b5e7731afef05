package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

const (
	commandAsk = "item/commandExecution/requestApproval"
	changeAsk  = "item/fileChange/requestApproval"
)

func questionOf(t *testing.T, method, id, params string) Question {
	t.Helper()
	a, is := askedOf(method, json.RawMessage(id), json.RawMessage(params))
	require.True(t, is, params)
	assert.Equal(t, "t", a.thread)
	assert.Regexp(t, `^[0-9a-f]{32}$`, a.ID)
	return a.Question
}

func TestQuestions(t *testing.T) {
	q := questionOf(t, commandAsk, `7`, `{"threadId":"t","itemId":"i","startedAtMs":1,"environmentId":"e","kind":"command",
		"command":"touch x","cwd":"/srv","reason":"why","commandActions":[],"additionalPermissions":null,
		"availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{}},"cancel"]}`)
	assert.Equal(t, Question{ID: q.ID, Kind: command, Text: "touch x", Directory: "/srv", Reason: "why",
		Decisions: []string{"accept", "decline"}}, q)
	q = questionOf(t, commandAsk, `7`, `{"threadId":"t","itemId":"i","approvalId":"a","command":"ls"}`)
	assert.Equal(t, decisions, q.Decisions)
	q = questionOf(t, "item/tool/requestUserInput", `7`, `{"threadId":"t","itemId":"i"}`)
	assert.Equal(t, Question{ID: q.ID, Kind: other, Decisions: []string{}}, q)
	for _, method := range []string{"item/tool/call", "currentTime/read", "account/chatgptAuthTokens/refresh"} {
		_, is := askedOf(method, json.RawMessage(`7`), json.RawMessage(`{"threadId":"t","itemId":"i"}`))
		assert.False(t, is, method)
	}
}

// Nobody approves what the question does not show, also of a newer codex.
func TestHiddenQuestionsAreDeclined(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for name, params := range map[string]string{
		"a long command":   `"command":"` + long + `"`,
		"a long directory": `"command":"ls","cwd":"` + long + `"`,
		"permissions":      `"command":"ls","additionalPermissions":{"network":{"enabled":true}}`,
		"a host":           `"networkApprovalContext":{"host":"example.com","protocol":"https"}`,
		"no command":       `"approvalId":"a"`,
		"input":            `"command":"ls","kind":"writeStdin"`,
		"something new":    `"command":"ls","asUser":"root"`,
	} {
		q := questionOf(t, commandAsk, `7`, `{"threadId":"t","itemId":"i",`+params+`}`)
		assert.Equal(t, []string{decline}, q.Decisions, name)
	}
	assert.Equal(t, []string{decline}, questionOf(t, changeAsk, `7`, `{"threadId":"t","itemId":"i","grantRoot":"/"}`).Decisions)
}

// Changes of files can be approved if the question shows each of them.
func TestChanges(t *testing.T) {
	v := newView("t")
	ask := func(id, changes string) Question {
		if changes != "" {
			note(v, "item/started", `{"threadId":"t","item":{"type":"fileChange","status":"inProgress","id":"`+id+`","changes":[`+changes+`]}}`)
		}
		v.ask(changeAsk, json.RawMessage(`"`+id+`"`), json.RawMessage(`{"threadId":"t","itemId":"`+id+`"}`))
		list := v.take().Questions
		return list[len(list)-1]
	}
	q := ask("whole", `{"path":"/a","kind":{"type":"add"},"diff":"one\ndelete /b"},
		{"path":"/c\nd","kind":{"type":"update","move_path":"/e"},"diff":"-x\n+y\n"},{"path":"/f","kind":{"type":"delete"},"diff":""}`)
	assert.Equal(t, "add /a\n  one\n  delete /b\nupdate \"/c\\nd\" -> /e\n  -x\n  +y\ndelete /f\n", q.Text)
	assert.Equal(t, decisions, q.Decisions)
	a, is := v.find(q.ID)
	assert.True(t, is)
	assert.Equal(t, decisions, a.Decisions)
	note(v, "item/started", `{"threadId":"t","item":{"type":"fileChange","status":"inProgress","id":"whole","changes":[
		{"path":"/root/.profile","kind":{"type":"add"},"diff":"x"}]}}`)
	_, is = v.find(q.ID)
	assert.False(t, is, "its item has other changes now")
	note(v, "item/completed", `{"threadId":"t","item":{"type":"fileChange","status":"completed","id":"whole","changes":[
		{"path":"/a","kind":{"type":"add"},"diff":"one"}]}}`)
	for _, q := range v.take().Questions {
		assert.Equal(t, []string{decline}, q.Decisions, "its item is over")
	}
	long := strings.Repeat("x", maxText)
	for id, changes := range map[string]string{
		"unknown": "", "none": " ", "kind": `{"path":"/a","kind":{"type":"chown"},"diff":"x"}`,
		"long": `{"path":"/root/.profile","kind":{"type":"add"},"diff":"x"},{"path":"/a","kind":{"type":"add"},"diff":"` + long + `"}`,
	} {
		q = ask(id, changes)
		assert.Equal(t, []string{decline}, q.Decisions, id)
	}
}

// An approval is for the question that was shown, and not for the next one of the same item, as after a sandbox has
// refused the command.
func TestQuestionsOfOneItem(t *testing.T) {
	v := newView("t")
	ask := func(id, more string) {
		v.ask(commandAsk, json.RawMessage(id), json.RawMessage(`{"threadId":"t","itemId":"i","command":"run"`+more+`}`))
	}
	ask(`7`, "")
	first := v.take().Questions[0].ID
	ask(`8`, `,"reason":"retry without sandbox?"`)
	both := v.take().Questions
	require.Len(t, both, 2)
	assert.NotEqual(t, both[0].ID, both[1].ID)
	note(v, "serverRequest/resolved", `{"threadId":"t","requestId":7}`)
	_, is := v.find(first)
	assert.False(t, is)
	a, is := v.find(both[1].ID)
	assert.True(t, is)
	assert.Equal(t, `8`, string(a.id))
	v.forget()
	ask(`7`, `,"cwd":"/"`)
	_, is = v.find(first)
	assert.False(t, is, "another question with the number of the first, as after a restart of codex")
}

func note(v *view, method, params string) { v.notified(method, json.RawMessage(params)) }

// Codex repeats the questions of a turn one after the other, and a client that is told has all of them.
func TestRepeatedQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newView("t")
		note(v, "thread/status/changed", `{"threadId":"t","status":{"type":"active","activeFlags":["waitingOnApproval"]}}`)
		var codex sync.WaitGroup
		codex.Go(func() {
			for _, id := range []string{`7`, `8`} {
				<-time.After(20 * time.Millisecond)
				v.ask(commandAsk, json.RawMessage(id), json.RawMessage(`{"threadId":"t","itemId":"`+id+`","command":"run"}`))
			}
			for range 1000 { // as another thread of the turn does
				<-time.After(time.Millisecond)
				note(v, "thread/name/updated", `{"threadId":"t","threadName":"a name"}`)
			}
		})
		began := time.Now()
		questions, complete := v.repeated(t.Context(), nil)
		assert.True(t, complete)
		assert.Len(t, questions, 2)
		assert.Equal(t, 40*time.Millisecond+askedPause, time.Since(began))
		codex.Wait()

		ended := make(chan struct{})
		close(ended)
		v = newView("t")
		note(v, "thread/status/changed", `{"threadId":"t","status":{"type":"active","activeFlags":["waitingOnApproval"]}}`)
		<-v.changed
		_, complete = v.repeated(t.Context(), ended)
		assert.False(t, complete)
		questions, complete = newView("t").repeated(t.Context(), nil)
		assert.True(t, complete, "it waits no more")
		assert.Empty(t, questions)
	})
}

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
			fmt.Sprintf(`{"threadId":"t","itemId":"%d","delta":"%s"}`, i, strings.Repeat("y", maxText/8)))
	}
	u := v.take()
	assert.Len(t, u.Items, maxItems)
	assert.Len(t, u.Questions, maxQuestions)
	assert.Equal(t, "599", u.Items[maxItems-1].ID)
	for i := range maxItems {
		note(v, "item/completed", fmt.Sprintf(`{"threadId":"t","item":{"type":"agentMessage","id":"%d","text":"%s"}}`,
			400+i, strings.Repeat("x", maxText)))
	}
	u = v.take()
	assert.InDelta(t, maxUpdate/maxText, len(u.Items), 1, "the newest of them")
	assert.Equal(t, "599", u.Items[len(u.Items)-1].ID)
	note(v, "item/completed", `{"threadId":"t","item":{"type":"agentMessage","id":"599","text":""}}`)
	for range 10 {
		note(v, "item/agentMessage/delta", `{"threadId":"t","itemId":"599","delta":"`+strings.Repeat("y", maxText)+`"}`)
	}
	assert.LessOrEqual(t, len(v.take().Items[0].Text), maxText+len("……"))
}
