package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/test/contract"
)

// ofCursor is a body as Cursor posts it to /v1/chat/completions.
const ofCursor = `{"model":"demo","stream":true,"stream_options":{"include_usage":true},"user":"u",
	"input":[{"role":"system","content":"You help."},{"role":"user","content":"hi"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":"sunny"},{"role":"user","content":"and now?"}],
	"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}],
	"tool_choice":"auto","reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"],"store":false}`

// Cursor gets chunks of a chat completion for the body of a response.
func TestCursor(t *testing.T) {
	t.Parallel()
	given := make(chan appservertest.Request, 2)
	handler := func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		turn.Call(ctx, "f", `{"a":1}`)
		return turn.Outputs(ctx)
	}
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler}, func(o *apitest.Options) { o.ChatTakesResponses = true })
	resp := r.Chatting(t, ofCursor)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "include, user", resp.Header.Get("X-Codex-Ignored-Params"))
	schema, err := contract.Compile()
	require.NoError(t, err)
	answers, err := schema.ChatStream(resp.Body, 1)
	require.NoError(t, err)
	require.Len(t, answers[0].Calls, 1)
	assert.Equal(t, "f", answers[0].Calls[0].Name)
	sent := apitest.Received(t, given)
	assert.Equal(t, "You help.", *sent.BaseInstructions)
	assert.Equal(t, "medium", sent.Effort)
	assert.Len(t, sent.Items, 4)
	assert.Len(t, sent.DynamicTools, 1)

	off := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	refused := off.Chatting(t, ofCursor)
	assert.Equal(t, http.StatusBadRequest, refused.StatusCode)
	assert.Equal(t, "unknown_parameter", apitest.Failure(t, apitest.Text(t, refused)).Error.Code)
}

// Unknown parameters are refused or ignored, by the key or else by the setting.
func TestUnknownParameters(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "plain", "lenient unknown-parameters=ignore", "strict unknown-parameters=refuse")
	bodies := map[string]string{
		"/v1/chat/completions": apitest.Hello(`"top_k":40,"snippy":{"enabled":false},`),
		"/v1/completions":      `{"model":"demo","prompt":"q","snippy":{"enabled":false},"top_k":40}`,
		"/v1/responses":        apitest.Asked(`"top_k":40,"snippy":{"enabled":false},`, `"q"`),
		"/v1/conversations":    `{"top_k":40,"snippy":{"enabled":false}}`,
	}
	for _, ignore := range []bool{false, true} {
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys, o.IgnoreUnknown = keys, ignore })
		for path, body := range bodies {
			for i, taken := range []bool{ignore, true, false} {
				resp := r.Do(t, http.MethodPost, path, body, "Authorization", "Bearer "+secrets[i])
				if taken {
					require.Equal(t, http.StatusOK, resp.StatusCode, path)
					assert.Equal(t, "snippy, top_k", resp.Header.Get("X-Codex-Ignored-Params"), path)
					continue
				}
				assert.Equal(t, http.StatusBadRequest, resp.StatusCode, path)
				assert.Equal(t, "unknown_parameter", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
			}
		}
	}
}
