package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAChunkArrivesBeforeTheModelHasFinished(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Script("text one ", "gate more", "text two"))
	lines := bufio.NewReader(ask(bounded(t), t, s, "m", "hi").Body)
	var seen []event
	for text(seen) == "" {
		e, err := next(lines)
		require.NoError(t, err)
		seen = append(seen, e)
	}
	_, err := s.Wait(bounded(t), AtGate("more", 1))
	require.NoError(t, err)
	assert.Equal(t, 1, s.OpenStreams())
	s.Release("more")
	rest, err := events(lines)
	require.NoError(t, err)
	assert.Equal(t, "one two", text(append(seen, rest...)))
	assert.Equal(t, "completed", rest[len(rest)-1].Response.Status)
}

func TestWhichScriptAnswers(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Always("", "text always"))
	require.NoError(t, s.Add(Script{Word: "lion", Steps: []string{"text roar"}}))
	require.NoError(t, s.Add(Script{Model: "b", Times: 1, Steps: []string{"text for b"}},
		Script{Times: 2, Steps: []string{"text queued"}}))
	for _, c := range []struct{ model, prompt, script, want string }{
		{"b", "hi [[text marked]] [[text , twice]]", "marker", "marked, twice"},
		{"b", "a lion", "word", "roar"},
		{"b", "hi", "model", "for b"},
		{"b", "hi", "queue", "queued"},
		{"a", "hi", "queue", "queued"},
		{"a", "hi", "queue", "always"},
		{"a", "hi", "queue", "always"},
	} {
		list, err := events(ask(bounded(t), t, s, c.model, c.prompt).Body)
		require.NoError(t, err)
		assert.Equal(t, c.want, text(list))
		turns := s.Turns()
		assert.Equal(t, c.script, turns[len(turns)-1].Script)
	}
}

// The marks of a prompt answer a whole loop of tools.
func TestMarksOfALoop(t *testing.T) {
	user := `{"role":"user","content":[{"text":"[[call a]] [[call b]] [[then]] [[call c]] [[then]] [[text end]]"}]}`
	calls := `{"type":"function_call"},{"type":"function_call"},` +
		`{"type":"function_call_output"},{"type":"function_call_output"}`
	both := []Step{{Verb: "call", Name: "a", Text: "{}"}, {Verb: "call", Name: "b", Text: "{}"}}
	again := `{"type":"reasoning"},{"type":"custom_tool_call"},{"type":"custom_tool_call_output"}`
	for _, c := range []struct {
		items []string
		want  []Step
	}{
		{[]string{user}, both},
		{[]string{user, `{"role":"developer"}`}, both},
		{[]string{user, calls}, []Step{{Verb: "call", Name: "c", Text: "{}"}}},
		{[]string{user, calls, again}, []Step{{Verb: "text", Text: "end"}}},
		{[]string{user, calls, again, calls}, nil},
		{[]string{user, `{"role":"assistant"}`}, nil},
	} {
		var input []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte("["+strings.Join(c.items, ",")+"]"), &input))
		steps, err := markedSteps(input)
		require.NoError(t, err)
		assert.Equal(t, c.want, steps, c.items)
	}
}

func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		steps  []string
		text   string
		status string // of the last event's response; empty: there is none
		broken bool
	}{
		"nothing":    {nil, "", "completed", false},
		"split":      {[]string{"split héllo ☃", "text !"}, "héllo ☃!", "completed", false},
		"repeat":     {[]string{"repeat 3 ab"}, "ababab", "completed", false},
		"trickle":    {[]string{"trickle 1ms añb"}, "añb", "completed", false},
		"huge":       {[]string{"huge 5000000 100000"}, strings.Repeat("x", 5000000), "completed", false},
		"delay":      {[]string{"delay 1ms", "text a"}, "a", "completed", false},
		"incomplete": {[]string{"text a", "incomplete"}, "a", "incomplete", false},
		"failed":     {[]string{"text a", "failed server_error went wrong"}, "a", "failed", false},
		"end":        {[]string{"text a", "end"}, "a", "", false},
		"completed":  {[]string{"text a", "completed", "drop"}, "a", "completed", true},
		"calling":    {[]string{"text a", `calling weather {"ci`, "drop"}, "a", "", true},
		"drop":       {[]string{"text a", "drop"}, "a", "", true},
		"badjson":    {[]string{"text a", "badjson"}, "a", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t)
			require.NoError(t, s.Script(c.steps...))
			list, err := events(ask(bounded(t), t, s, "m", "hi").Body)
			assert.Equal(t, c.broken, err != nil, "%v", err)
			require.NotEmpty(t, list)
			assert.Equal(t, c.text, text(list))
			last := list[len(list)-1]
			if c.status == "" {
				assert.NotContains(t, []string{"response.completed", "response.failed"}, last.Type)
			} else {
				assert.Equal(t, c.status, last.Response.Status)
			}
		})
	}
}

func TestParallelCallsReasoningAndUsage(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Script("reasoning why", "text so", `call weather {"city":"Oslo"}`,
		"call time", "usage 7 1 3 2"))
	list, err := events(ask(bounded(t), t, s, "m", "hi").Body)
	require.NoError(t, err)
	var done []string
	for _, e := range list {
		if e.Type == "response.output_item.done" {
			done = append(done, e.Item.Type+e.Item.Name+e.Item.Arguments)
		}
	}
	assert.Equal(t, []string{"reasoning", "message", `function_callweather{"city":"Oslo"}`, "function_calltime{}"},
		done)
	usage := list[len(list)-1].Response.Usage
	assert.Equal(t, []int{7, 3}, []int{usage.Input, usage.Output})
}

func TestHTTPErrors(t *testing.T) {
	for step, want := range map[string]struct {
		status      int
		retry, body string
	}{
		"error 400":                             {400, "", `"invalid_request_error"`},
		"error 401":                             {401, "", `"invalid_api_key"`},
		"error 429 retry-after=7":               {429, "7", `"rate_limit_exceeded"`},
		"error 429":                             {429, "", `"rate_limit_exceeded"`},
		"error 503 retry-after=1 upstream gone": {503, "1", "upstream gone"},
		"garbage":                               {200, "", "<html>"},
	} {
		t.Run(step, func(t *testing.T) {
			s := Start(t)
			resp := ask(bounded(t), t, s, "m", "[["+step+"]]")
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, want.status, resp.StatusCode)
			assert.Equal(t, want.retry, resp.Header.Get("Retry-After"))
			assert.Contains(t, string(body), want.body)
			turns, err := s.Wait(bounded(t), func(turns []Request) bool { return !turns[0].Open() })
			require.NoError(t, err)
			assert.Equal(t, want.status, turns[0].Status)
		})
	}
}

func TestACutIsSeen(t *testing.T) {
	for _, step := range []string{"silence", "hang", "gate never", "trickle 20ms " + strings.Repeat("x", 10000),
		"delay 1h"} {
		t.Run(step[:4], func(t *testing.T) {
			s := Start(t)
			require.NoError(t, s.Script(step))
			ctx, cut := context.WithCancel(bounded(t))
			gone := make(chan error, 1)
			go func() {
				resp, err := post(ctx, s, "m", "hi")
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				gone <- err
			}()
			_, err := s.Wait(bounded(t), AtLeast(1))
			require.NoError(t, err)
			cut()
			assert.ErrorIs(t, <-gone, context.Canceled)
			turns, err := s.Wait(bounded(t), CutAtLeast(1))
			require.NoError(t, err)
			assert.False(t, turns[0].Cut.Before(turns[0].At))
			assert.Zero(t, s.OpenStreams())
		})
	}
}

func TestWhatIsRecorded(t *testing.T) {
	s := Start(t)
	body := `{"model":"m","instructions":"be brief","input":[{"role":"user"}],"tools":[{"name":"t"}],` +
		`"text":{"format":{"type":"json_schema"}},"reasoning":{"effort":"low"}}`
	resp, err := client.Post(s.URL()+"/v1/responses", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	resp.Body.Close()
	r := s.Turns()[0]
	assert.Equal(t, len(body), r.Bytes)
	assert.JSONEq(t, body, string(r.Body.Raw))
	assert.Equal(t, "be brief", r.Body.Instructions)
	assert.JSONEq(t, `{"type":"json_schema"}`, string(r.Body.Text.Format))
	assert.JSONEq(t, `{"effort":"low"}`, string(r.Body.Reasoning))
	assert.Len(t, r.Body.Tools, 1)
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
}

func TestOtherPaths(t *testing.T) {
	s := Start(t, "a", "b")
	for path, want := range map[string]int{"/v1/models": 200, "/v1/responses": 426, "/v1/embeddings": 404} {
		resp, err := client.Get(s.URL() + path)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, want, resp.StatusCode, path)
	}
	assert.Len(t, s.Requests(), 3)
	assert.Empty(t, s.Turns())
}

func TestControlFromAnotherProcess(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := StartOn(t, ln)
	do := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(bounded(t), method, s.URL()+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(out)
	}
	status, _ := do("POST", "/_scripts", `[{"model":"a","times":-1,"steps":["text for a"]},{"steps":["gate g","text `+
		`rest"]}]`)
	assert.Equal(t, 200, status)
	for _, bad := range []string{`{"steps":["fly"]}`, `{"step":[]}`, `{`} {
		status, _ = do("POST", "/_scripts", bad)
		assert.Equal(t, 400, status, bad)
	}
	resp := ask(bounded(t), t, s, "b", "hi")
	status, out := do("GET", "/_requests?turns=1", "")
	assert.Equal(t, 200, status)
	var got struct {
		Requests []Request
		Open     int `json:"open_streams"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Equal(t, 1, got.Open)
	assert.Equal(t, "b", got.Requests[0].Body.Model)

	for word, n := range map[string]int{"hi": 1, "lion": 0} {
		_, out := do("GET", "/_requests?word="+word, "")
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		assert.Len(t, got.Requests, n, word)
	}

	do("POST", "/_gates/g", "")
	list, err := events(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "rest", text(list))

	do("DELETE", "/_requests", "")
	do("DELETE", "/_scripts", "")
	assert.Empty(t, s.Requests())
	list, err = events(ask(bounded(t), t, s, "a", "hi").Body)
	require.NoError(t, err)
	assert.Equal(t, "hello from the model server", text(list))
}

func TestStepsThatCannotBeRead(t *testing.T) {
	for _, steps := range [][]string{{"fly"}, {"repeat x y"}, {"delay soon"}, {"trickle -1s a"}, {"huge 5 0"}, {"call"},
		{"usage 1"}, {"error 200"}, {"text a", "error 500"}, {"text a", "hang"}} {
		_, err := ParseSteps(steps)
		assert.Error(t, err, steps)
	}
	assert.ErrorContains(t, New().Script("text a", "fly"), `cannot read step 2 "fly": unknown verb "fly"`)
}
