package apitest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// TurnFailures are the ways in which codex lets a turn fail, and what a client sees of each.
var TurnFailures = []struct {
	Name, Message string
	Info          any
	Status        int
	Kind, Code    string
	RetryAfter    string
}{
	{"usage limit", "limit", "usageLimitExceeded", 429, "insufficient_quota", "usage_limit_reached", "60"},
	{"session budget", "limit", "sessionBudgetExceeded", 429, "insufficient_quota", "usage_limit_reached", "60"},
	{"rate limit", "slow down", "rateLimitExceeded", 429, "rate_limit_error", "rate_limited", "10"},
	{"overloaded", "busy", "serverOverloaded", 503, "backend_unavailable", "overloaded", "5"},
	{"no capacity", "busy", "policyCapacityUnavailable", 503, "backend_unavailable", "overloaded", "5"},
	{"context window", "too long", "contextWindowExceeded", 400, "invalid_request_error", "context_length_exceeded",
		""},
	{"cyber policy", "no", "cyberPolicy", 400, "invalid_request_error", "content_policy_violation", ""},
	{"bad request", "no", "badRequest", 400, "invalid_request_error", "upstream_rejected", ""},
	{"model not found", "no such model", "modelNotFound", 404, "invalid_request_error", "model_not_found", ""},
	{"unauthorized", "who", "unauthorized", 503, "backend_unavailable", "upstream_unauthorized", "60"},
	{"internal server error", "oops", "internalServerError", 503, "backend_unavailable", "upstream_error", "5"},
	{"sandbox", "oops", "sandboxError", 400, "invalid_request_error", "upstream_rejected", ""},
	{"a kind of tomorrow", "oops", "brandNew", 400, "invalid_request_error", "upstream_rejected", ""},
	{"bio policy", "no", "bioPolicy", 400, "invalid_request_error", "content_policy_violation", ""},
	{"429 after retries", "x", appservertest.HTTPInfo("responseTooManyFailedAttempts", 429), 429,
		"rate_limit_error", "rate_limited", "10"},
	{"401", "x", appservertest.HTTPInfo("httpConnectionFailed", 401), 503, "backend_unavailable",
		"upstream_unauthorized", "60"},
	{"403", "x", appservertest.HTTPInfo("httpConnectionFailed", 403), 503, "backend_unavailable",
		"upstream_unauthorized", "60"},
	{"413", "x", appservertest.HTTPInfo("httpConnectionFailed", 413), 400, "invalid_request_error",
		"upstream_rejected", ""},
	{"422", "x", appservertest.HTTPInfo("httpConnectionFailed", 422), 400, "invalid_request_error",
		"upstream_rejected", ""},
	{"502", "x", appservertest.HTTPInfo("httpConnectionFailed", 502), 503, "backend_unavailable", "upstream_error",
		"5"},
	{"no status", "x", appservertest.HTTPInfo("httpConnectionFailed", 0), 503, "backend_unavailable",
		"upstream_error", "5"},
	{"stream not opened", "x", appservertest.HTTPInfo("responseStreamConnectionFailed", 500), 503,
		"backend_unavailable", "upstream_error", "5"},
	{"stream cut", "x", appservertest.HTTPInfo("responseStreamDisconnected", 0), 503, "backend_unavailable",
		"upstream_error", "5"},
	{"other: cut", "stream disconnected before completion: eof", "other", 503, "backend_unavailable",
		"upstream_error", "5"},
	{"other: silent", "stream disconnected before completion: idle timeout waiting for SSE", "other", 504,
		"timeout_error", "idle_timeout", ""},
	{"other: refused", "invalid prompt", "other", 400, "invalid_request_error", "upstream_rejected", ""},
}

// EndsInError asserts that the stream has text, then one error frame, and no [DONE].
func EndsInError(t testing.TB, got []string, kind, code string) {
	t.Helper()
	require.NotEmpty(t, got)
	e := Failure(t, got[len(got)-1]).Error
	assert.Equal(t, kind, e.Type)
	assert.Equal(t, code, e.Code)
	for _, f := range got[:len(got)-1] {
		assert.NotContains(t, f, `"error"`)
		assert.NotContains(t, f, `"finish_reason":"`)
		assert.NotEqual(t, "[DONE]", f)
	}
}
