package messages_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// counted is the count of the tokens of a request.
func counted(t *testing.T, r *apitest.Rig, body string, header ...string) float64 {
	t.Helper()
	resp := r.Do(t, http.MethodPost, "/v1/messages/count_tokens", body, append(apitest.AnthropicVersion, header...)...)
	answer := apitest.Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	got := apitest.Read[map[string]float64](t, answer)
	require.Len(t, got, 1)
	return got["input_tokens"]
}

// Tokens are counted without a turn, and need no max_tokens.
func TestCountTokens(t *testing.T) {
	var turns atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		turns.Add(1)
		return nil
	}})
	short := counted(t, r, `{"model":"demo","messages":[{"role":"user","content":"hello"}]}`)
	assert.Positive(t, short)
	for name, extra := range map[string]string{"a system prompt": `"system":"You are a helpful assistant.",`, "tools": messageTools} {
		assert.Greater(t, counted(t, r, apitest.Greet(extra)), short, name)
	}
	long := counted(t, r, strings.Replace(apitest.Greet(""), "hello", strings.Repeat("hello ", 1000), 1))
	assert.InDelta(t, short+1000, long, 10)
	assert.Zero(t, turns.Load())
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

func TestCountTokensRefuses(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=2")
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys = keys })
	key := []string{"X-Api-Key", secrets[0]}
	for _, tc := range []struct {
		body   string
		status int
		kind   string
	}{
		{`{"messages":[{"role":"user","content":"hello"}]}`, 400, "invalid_request_error"},
		{`{"model":"demo","messages":[]}`, 400, "invalid_request_error"},
		{apitest.Greet(""), 429, "rate_limit_error"},
	} {
		resp := r.Do(t, http.MethodPost, "/v1/messages/count_tokens", tc.body, key...)
		assert.Equal(t, tc.status, resp.StatusCode, tc.body)
		kind, _, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, tc.kind, kind)
	}
}
