package apitest

import (
	"net/http"
	"testing"
)

// Greet is a message for the demo model; extra goes in front, as `"stream":true,`.
func Greet(extra string) string { return MessageOf(extra, `[{"role":"user","content":"hello"}]`) }

// MessageOf is a request with these messages.
func MessageOf(extra, messages string) string {
	return `{` + extra + `"model":"demo","max_tokens":1000,"messages":` + messages + `}`
}

// Messaging posts to /v1/messages as Anthropic's libraries do.
func (r *Rig) Messaging(t testing.TB, body string, header ...string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/messages", body, append(AnthropicVersion, header...)...)
}
