package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

const someUsageJSON = `{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,` +
	`"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}`

var (
	anyID      = regexp.MustCompile(`"id":"(chatcmpl-[0-9a-f]{24})"`)
	anyCreated = regexp.MustCompile(`"created":(\d{10,})`)
)

// stable replaces the id and the time, which must be the same throughout.
func stable(t *testing.T, text string) string {
	t.Helper()
	for _, re := range []*regexp.Regexp{anyID, anyCreated} {
		seen := map[string]bool{}
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			seen[m[1]] = true
		}
		assert.Len(t, seen, 1, "%s in %s", re, text)
	}
	return anyCreated.ReplaceAllString(anyID.ReplaceAllString(text, `"id":"ID"`), `"created":0`)
}

func TestWholeChat(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "Hello ", "<world>\n")})
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	assert.Empty(t, resp.Header.Get("X-Codex-Ignored-Params"))
	assert.JSONEq(t, `{"id":"ID","object":"chat.completion","created":0,"model":"demo","choices":[{"index":0,
		"message":{"role":"assistant","content":"Hello <world>\n","refusal":null},"logprobs":null,"finish_reason":"stop"}],
		"usage":`+someUsageJSON+`}`, stable(t, apitest.Text(t, resp)))
}

func TestStreamedChat(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "Hel", "lo")})
	chunk := func(choices string) string {
		return `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"demo","choices":[` +
			choices + "]}\n\n"
	}
	want := chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`) +
		chunk(`{"index":0,"delta":{"content":"Hel"},"finish_reason":null}`) +
		chunk(`{"index":0,"delta":{"content":"lo"},"finish_reason":null}`) +
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`)
	const done = "data: [DONE]\n\n"

	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
	assert.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
	assert.Equal(t, want+done, stable(t, apitest.Text(t, resp)))

	resp = r.Chatting(t, apitest.Hello(apitest.Streaming+`"stream_options":{"include_usage":true},`))
	usage := func(u string) string { return `],"usage":` + u + "}\n\n" }
	want = strings.ReplaceAll(want, "]}\n\n", usage("null")) + strings.TrimSuffix(chunk(""), "]}\n\n") +
		usage(someUsageJSON)
	assert.Equal(t, want+done, stable(t, apitest.Text(t, resp)))
}

func TestEmptyAnswerIsStillAWholeStream(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error { return nil }})
	got := apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming)))
	require.Len(t, got, 3)
	assert.Contains(t, got[0], `"role":"assistant"`)
	assert.Contains(t, got[1], `"finish_reason":"stop"`)
	assert.Equal(t, "[DONE]", got[2])
}

// The first chunk must arrive while the model is still writing.
func TestFirstChunkDoesNotWaitForTheRest(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "second")})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	assert.Contains(t, apitest.Frame(t, body), `"role":"assistant"`)
	assert.Contains(t, apitest.Frame(t, body), `"content":"first"`)
	close(gate)
	assert.Contains(t, apitest.Frame(t, body), `"content":"second"`)
	assert.Contains(t, apitest.Frame(t, body), `"finish_reason":"stop"`)
	assert.Equal(t, "data: [DONE]", apitest.Frame(t, body))
}

func TestHistoryReachesTheWorkerInItsRoles(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		return nil
	}})
	message := func(role, kind, text string) string {
		return `{"type":"message","role":"` + role + `","content":[{"type":"` + kind + `","text":"` + text + `"}]}`
	}
	for name, tc := range map[string]struct {
		body, instructions string
		items              []string
	}{
		"all roles": {
			body: `{"model":"demo","reasoning_effort":"high","messages":[
				{"role":"system","content":"s1"},{"role":"system","content":[{"type":"text","text":"s2"}]},
				{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"u1a"},{"type":"text","text":"u1b"}]},
				{"role":"assistant","content":"a"},{"role":"system","content":"late"},{"role":"user","content":"u2"}]}`,
			instructions: "s1\n\ns2",
			items: []string{
				message("developer", "input_text", "d"),
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"u1a"},{"type":"input_text","text":"u1b"}]}`, message("assistant", "output_text", "a"),
				message("developer", "input_text", "late"), message("user", "input_text", "u2"),
			},
		},
		"no system message": {
			body:  `{"model":"demo","reasoning_effort":"high","messages":[{"role":"user","content":"u"}]}`,
			items: []string{message("user", "input_text", "u")},
		},
		"nothing but one": {
			body:  `{"model":"demo","reasoning_effort":"high","messages":[{"role":"system","content":"s"}]}`,
			items: []string{message("developer", "input_text", "s")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, http.StatusOK, r.Chatting(t, tc.body).StatusCode)
			got := apitest.Received(t, requests)
			assert.Equal(t, "demo", got.Model)
			assert.Equal(t, "high", got.Effort)
			require.NotNil(t, got.BaseInstructions, "codex's own prompt is never used")
			assert.Equal(t, tc.instructions, *got.BaseInstructions)
			require.Len(t, got.Items, len(tc.items))
			for i, item := range tc.items {
				assert.JSONEq(t, item, string(got.Items[i]))
			}
		})
	}
}

func TestIgnoredParametersAreNamed(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")})
	for _, kind := range []string{"", apitest.Streaming} {
		resp := r.Chatting(t, apitest.Hello(kind+`"temperature":0.5,"seed":1,"store":false,"max_tokens":5,`))
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, "max_tokens, seed, temperature", resp.Header.Get("X-Codex-Ignored-Params"))
	}
}

// A response that the model endpoint cut short is a failed turn to codex.
func TestIncompleteAnswers(t *testing.T) {
	for reason, finish := range map[string]string{"max_output_tokens": "length", "content_filter": "content_filter",
		"something new": "length"} {
		t.Run(reason, func(t *testing.T) {
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
				turn.Text("so far")
				return &appservertest.Failure{Message: "Incomplete response returned, reason: " + reason,
					Info: "other", Usage: apitest.SomeUsage}
			}})
			resp := r.Chatting(t, apitest.Hello(""))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			var got struct {
				Choices []struct {
					Message      struct{ Content string }
					FinishReason string `json:"finish_reason"`
				}
				Usage json.RawMessage
			}
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
			assert.Equal(t, "so far", got.Choices[0].Message.Content)
			assert.Equal(t, finish, got.Choices[0].FinishReason)
			assert.JSONEq(t, someUsageJSON, string(got.Usage))

			streamed := apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming)))
			assert.Contains(t, streamed[len(streamed)-2], `"finish_reason":"`+finish+`"`)
			assert.Equal(t, "[DONE]", streamed[len(streamed)-1])
		})
	}
}

func TestModels(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Models: []appservertest.Model{{ID: "m1"}, {ID: "m2"},
		{ID: "dark", Hidden: true}}})
	resp := r.Do(t, http.MethodGet, "/v1/models", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.JSONEq(t, `{"object":"list","data":[
		{"id":"m1","object":"model","created":1744761600,"owned_by":"codex"},{"id":"m2","object":"model","created":1744761600,"owned_by":"codex"}]}`, apitest.Text(t, resp))
}
