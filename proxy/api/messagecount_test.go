package api

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// counted is the count of the tokens of a request.
func counted(t *testing.T, r *rig, body string, header ...string) float64 {
	t.Helper()
	resp := r.do(t, http.MethodPost, "/v1/messages/count_tokens", body, append(anthropicVersion, header...)...)
	answer := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	got := read[map[string]float64](t, answer)
	require.Len(t, got, 1)
	return got["input_tokens"]
}

// Tokens are counted without a turn, and need no max_tokens.
func TestCountTokens(t *testing.T) {
	var turns atomic.Int64
	r := newRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		turns.Add(1)
		return nil
	}})
	short := counted(t, r, `{"model":"demo","messages":[{"role":"user","content":"hello"}]}`)
	assert.Positive(t, short)
	for name, extra := range map[string]string{"a system prompt": `"system":"You are a helpful assistant.",`, "tools": messageTools} {
		assert.Greater(t, counted(t, r, greet(extra)), short, name)
	}
	long := counted(t, r, strings.Replace(greet(""), "hello", strings.Repeat("hello ", 1000), 1))
	assert.InDelta(t, short+1000, long, 10)
	assert.Zero(t, turns.Load())
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

func TestCountTokensRefuses(t *testing.T) {
	keys, secrets := withKeys(t, "alice requests-per-minute=2")
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Keys = keys })
	key := []string{"X-Api-Key", secrets[0]}
	for _, tc := range []struct {
		body   string
		status int
		kind   string
	}{
		{`{"messages":[{"role":"user","content":"hello"}]}`, 400, "invalid_request_error"},
		{`{"model":"demo","messages":[]}`, 400, "invalid_request_error"},
		{greet(""), 429, "rate_limit_error"},
	} {
		resp := r.do(t, http.MethodPost, "/v1/messages/count_tokens", tc.body, key...)
		assert.Equal(t, tc.status, resp.StatusCode, tc.body)
		kind, _, _ := anthropicFailure(t, text(t, resp))
		assert.Equal(t, tc.kind, kind)
	}
}
