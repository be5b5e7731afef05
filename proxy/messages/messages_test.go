package messages_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

var anyMessageID = regexp.MustCompile(`"id":"msg_[0-9a-f]{24}"`)

// withoutID replaces the id of a message.
func withoutID(text string) string { return anyMessageID.ReplaceAllString(text, `"id":"ID"`) }

const someMessageUsage = `"input_tokens":15,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"output_tokens":7`

func TestWholeMessage(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "Hello ", "<world>\n")})
	resp := r.Messaging(t, apitest.Greet(""), "X-Request-Id", "mine")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	assert.Equal(t, "mine", resp.Header.Get("Request-Id"))
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	got := apitest.Read[map[string]any](t, withoutID(apitest.Text(t, resp)))
	usage := got["usage"].(map[string]any)
	for name, n := range apitest.Read[map[string]float64](t, "{"+someMessageUsage+"}") {
		assert.Equal(t, n, usage[name], name)
	}
	delete(got, "usage")
	for name, want := range map[string]any{
		"id": "ID", "type": "message", "role": "assistant", "model": "demo", "stop_reason": "end_turn",
		"stop_sequence": nil, "content": []any{map[string]any{"type": "text", "text": "Hello <world>\n"}},
	} {
		assert.Equal(t, want, got[name], name)
	}
}

func TestStreamedMessage(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "Hel", "lo")})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
	assert.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
	got := sentEvents(t, resp)
	var names []string
	for _, e := range got {
		names = append(names, e.name)
	}
	assert.Equal(t, []string{"message_start", "ping", "content_block_start", "content_block_delta",
		"content_block_delta", "content_block_stop", "message_delta", "message_stop"}, names)
	assert.Contains(t, withoutID(got[0].data), `"id":"ID"`)
	assert.Contains(t, got[0].data, `"model":"demo"`)
	assert.JSONEq(t, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, got[2].data)
	assert.JSONEq(t, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`, got[3].data)
	assert.JSONEq(t, `{"type":"content_block_stop","index":0}`, got[5].data)
	m := joined(t, got)
	assert.Equal(t, []string{"Hello"}, m.texts())
	assert.Equal(t, "end_turn", *m.StopReason)
	for name, n := range apitest.Read[map[string]float64](t, "{"+someMessageUsage+"}") {
		assert.Equal(t, n, m.Usage[name], name)
	}
}

func TestEmptyMessageIsStillAWholeStream(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error { return nil }})
	apitest.BothForms(t, func(t *testing.T, form string) {
		m := readMessage(t, r.Messaging(t, apitest.Greet(form)))
		assert.Empty(t, m.Content)
		assert.Equal(t, "end_turn", *m.StopReason)
	})
}

// The first events must arrive while the model is still writing.
func TestFirstEventDoesNotWaitForTheRest(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "second")})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	for _, name := range []string{"message_start", "ping", "content_block_start"} {
		assert.Equal(t, name, nextEvent(t, body).name)
	}
	assert.Contains(t, nextEvent(t, body).data, `"text":"first"`)
	close(gate)
	assert.Contains(t, nextEvent(t, body).data, `"text":"second"`)
	assert.Len(t, sentEvents(t, apitest.Unread(resp, body)), 3)
}

// nextEvent reads one event.
func nextEvent(t *testing.T, from *bufio.Reader) sentEvent {
	t.Helper()
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	return eventOf(t, line+apitest.Frame(t, from))
}

// Each block becomes an item of the history in its place.
func TestMessagesReachTheWorkerInTheirRoles(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(requests)})
	input := func(role, content string) string {
		return `{"type":"message","role":"` + role + `","content":[` + content + `]}`
	}
	words := func(kind, text string) string { return `{"type":"` + kind + `","text":"` + text + `"}` }
	for name, tc := range map[string]struct {
		extra, messages, instructions string
		items                         []string
	}{
		"system": {`"system":"s",`, `[{"role":"user","content":"u"}]`, "s",
			[]string{input("user", words("input_text", "u"))}},
		"system of blocks": {`"system":[{"type":"text","text":"s1"},{"type":"text","text":"s2","cache_control":{"type":"ephemeral"}}],`,
			`[{"role":"user","content":[{"type":"text","text":"u1"},{"type":"text","text":"u2"}]}]`, "s1\n\ns2",
			[]string{input("user", words("input_text", "u1")+","+words("input_text", "u2"))}},
		"turns": {"", `[{"role":"user","content":"u1"},{"role":"assistant","content":[{"type":"text","text":"a1"},{"type":"text","text":"a2"}]},{"role":"user","content":"u2"}]`, "",
			[]string{input("user", words("input_text", "u1")), input("assistant", words("output_text", "a1")),
				input("assistant", words("output_text", "a2")), input("user", words("input_text", "u2"))}},
		"calls and results": {"", `[{"role":"user","content":"u"},
			{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"f","input":{"x":1}},{"type":"tool_use","id":"c2","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"r2"},{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"r1"}],"is_error":true},{"type":"text","text":"go on"}]}]`,
			"", []string{input("user", words("input_text", "u")), input("assistant", words("output_text", "a")),
				`{"type":"function_call","name":"f","arguments":"{\"x\":1}","call_id":"c1"}`,
				`{"type":"function_call","name":"g","arguments":"{}","call_id":"c2"}`,
				`{"type":"function_call_output","call_id":"c2","output":"r2"}`,
				`{"type":"function_call_output","call_id":"c1","output":"Error: r1"}`,
				input("user", words("input_text", "go on"))}},
		"images": {"", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + onePixelData + `"}},{"type":"text","text":"u"}]}]`, "",
			[]string{input("user", `{"type":"input_image","image_url":"data:image/png;base64,`+onePixelData+`"},`+words("input_text", "u"))}},
		"an image in a result": {"", `[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + onePixelData + `"}}]}]}]`, "",
			[]string{input("user", words("input_text", "u")), `{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}`,
				`{"type":"function_call_output","call_id":"c","output":[` + words("input_text", "see") + `,{"type":"input_image","image_url":"data:image/png;base64,` + onePixelData + `"}]}`}},
		"foreign thinking": {"", `[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"EqQBCgIYAhIM"},{"type":"redacted_thinking","data":"EmwKAhgB"},{"type":"text","text":"a"}]},{"role":"user","content":"v"}]`, "",
			[]string{input("user", words("input_text", "u")), input("assistant", words("output_text", "a")),
				input("user", words("input_text", "v"))}},
	} {
		t.Run(name, func(t *testing.T) {
			resp := r.Messaging(t, apitest.MessageOf(tc.extra, tc.messages))
			require.Equal(t, http.StatusOK, resp.StatusCode, "%s", apitest.Text(t, resp))
			got := apitest.Received(t, requests)
			assert.Equal(t, "demo", got.Model)
			require.NotNil(t, got.BaseInstructions, "codex's own prompt is never used")
			assert.Equal(t, tc.instructions, *got.BaseInstructions)
			require.Len(t, got.Items, len(tc.items))
			for i, item := range tc.items {
				assert.JSONEq(t, item, string(got.Items[i]))
			}
		})
	}
}

// onePixelData is the smallest image.
const onePixelData = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

func TestIgnoredParametersOfMessagesAreNamed(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")})
	apitest.BothForms(t, func(t *testing.T, form string) {
		resp := r.Messaging(t, apitest.Greet(form+`"temperature":0.5,"top_k":1,`))
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, "max_tokens, temperature, top_k", resp.Header.Get("X-Codex-Ignored-Params"))
	})
}

// A response that the model endpoint cut short is a failed turn to codex.
func TestIncompleteMessages(t *testing.T) {
	for reason, stop := range map[string]string{"max_output_tokens": "max_tokens", "content_filter": "refusal",
		"something new": "max_tokens"} {
		t.Run(reason, func(t *testing.T) {
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
				turn.Text("so far")
				return &appservertest.Failure{Message: "Incomplete response returned, reason: " + reason,
					Info: "other", Usage: apitest.SomeUsage}
			}})
			apitest.BothForms(t, func(t *testing.T, form string) {
				m := readMessage(t, r.Messaging(t, apitest.Greet(form)))
				assert.Equal(t, []string{"so far"}, m.texts())
				assert.Equal(t, stop, *m.StopReason)
				assert.InDelta(t, 7, m.Usage["output_tokens"], 0)
			})
		})
	}
}

// Codex withholds the words of a refusal, which shows in the usage alone.
func TestWithheldMessageIsARefusal(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.EndResponse(apitest.SomeUsage)
		return nil
	}})
	apitest.BothForms(t, func(t *testing.T, form string) {
		m := readMessage(t, r.Messaging(t, apitest.Greet(form)))
		assert.Equal(t, "refusal", *m.StopReason)
		assert.Empty(t, m.Content)
		require.NotNil(t, m.StopDetails)
		assert.Contains(t, m.StopDetails.Explanation, "most likely is a refusal")
	})
}

func TestRoutesOfMessages(t *testing.T) {
	t.Parallel()
	keys, secrets := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys = keys })
	for _, tc := range []struct {
		method, path, key string
		status            int
		kind              string
	}{
		{"POST", "/v1/messages", "", 401, "authentication_error"},
		{"GET", "/v1/messages", secrets[0], 405, "invalid_request_error"},
		{"POST", "/v1/messages/", secrets[0], 415, "invalid_request_error"},
		{"POST", "/v1/v1/messages", secrets[0], 404, "not_found_error"},
		{"POST", "/messages", secrets[0], 404, "not_found_error"},
		{"POST", "/v1/messages/batches", secrets[0], 404, "not_found_error"},
		{"GET", "/v1/messages/batches/msgbatch_1/results", secrets[0], 404, "not_found_error"},
		{"POST", "/v1/messages", secrets[0], 415, "invalid_request_error"},
	} {
		resp := r.Do(t, tc.method, tc.path, "", "X-Api-Key", tc.key) // without the header of the version
		assert.Equal(t, tc.status, resp.StatusCode, tc.path)
		kind, _, id := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, tc.kind, kind, tc.path)
		assert.Equal(t, resp.Header.Get("Request-Id"), id)
	}
	resp := r.Do(t, http.MethodPost, "/v1/messages?beta=true", apitest.Greet(""), "X-Api-Key", secrets[0])
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// With max_tokens 0 Anthropic's API fills its cache, and generates nothing.
func TestMessagesWithoutTokensRunNoTurn(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		t.Error("a turn ran")
		return nil
	}})
	const warm = `{"model":"demo","max_tokens":0,"system":"Be brief.","messages":[{"role":"user","content":"warm up"}]`
	resp := r.Messaging(t, warm+`}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "max_tokens", resp.Header.Get("X-Codex-Ignored-Params"))
	var message struct {
		Content    []any  `json:"content"`
		StopReason string `json:"stop_reason"`
		Usage      struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, resp)), &message))
	assert.Empty(t, message.Content)
	assert.Equal(t, "max_tokens", message.StopReason)
	assert.Positive(t, message.Usage.Input)
	assert.Zero(t, message.Usage.Output)

	resp = r.Messaging(t, warm+`,"stream":true}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, apitest.Text(t, resp), `"stop_reason":"max_tokens"`)
}
