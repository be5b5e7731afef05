package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// extremes are numbers, and what is sent in their place.
var extremes = []string{"0", "-1", "-0.0", "0.1", "1.0", "1e2", "9007199254740993", "9223372036854775807", "9223372036854775808",
	"-9223372036854775809", "1e308", "1e400", "-1e400", "1e-400", "0.000000000000000000000000000000000001e36", `"1"`, "true", "null", "[1]", "{}"}

// Each number of a request at its extremes has an answer or a refusal that names it.
func TestNumbersAtTheirExtremes(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	for path, form := range map[string]struct {
		body  string // %s: a member
		names []string
	}{
		"/v1/chat/completions": {`{"model":"demo","messages":[{"role":"user","content":"q"}],%s}`, []string{
			"n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty",
			"top_logprobs", "logprobs", "stream_options", "metadata"}},
		"/v1/completions": {`{"model":"demo","prompt":"q",%s}`, []string{"n", "max_tokens", "best_of", "logprobs", "seed", "temperature"}},
		"/v1/responses": {`{"model":"demo","input":"q",%s}`, []string{
			"max_output_tokens", "temperature", "top_p", "top_logprobs", "max_tool_calls", "background", "store"}},
		"/v1/messages": {`{"model":"demo","messages":[{"role":"user","content":"q"}],%s}`, []string{
			"max_tokens", "temperature", "top_p", "top_k", "stop_sequences"}},
	} {
		for _, name := range form.names {
			for _, value := range extremes {
				member := fmt.Sprintf("%q:%s", name, value)
				if path == "/v1/messages" && name != "max_tokens" {
					member += `,"max_tokens":9`
				}
				resp := r.Do(t, http.MethodPost, path, fmt.Sprintf(form.body, member))
				answers(t, resp, path+" "+member)
			}
		}
	}
	for _, value := range extremes {
		for _, path := range []string{"/v1/responses/resp_1?stream=true&starting_after=", "/v1/responses/resp_1/input_items?limit=",
			"/v1/conversations/conv_1/items?limit="} {
			answers(t, r.Do(t, http.MethodGet, path+url.QueryEscape(value), ""), path+value)
		}
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// answers asserts that a request is done, or refused for what it has.
func answers(t *testing.T, resp *http.Response, of string) {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err, of)
	require.NoError(t, resp.Body.Close())
	assert.Less(t, resp.StatusCode, 500, "%s: %s", of, text)
	assert.True(t, json.Valid(text), "%s: %s", of, text)
	if resp.StatusCode != http.StatusOK {
		var refusal struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		require.NoError(t, json.Unmarshal(text, &refusal), of)
		assert.NotEmpty(t, refusal.Error.Message, of)
	}
}
