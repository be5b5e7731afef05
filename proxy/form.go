package proxy

import (
	"net/http"
	"strings"

	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai"
)

// Form is the API that determines the form of an answer: its errors, and the headers of its limits.
type Form int

// The forms.
const (
	OpenAI Form = iota
	Anthropic
)

// formOf is the form of a request before its route is known. Each client of Anthropic's
// API sends the header with the version; a route may have the form without it.
func formOf(r *http.Request) Form {
	if _, there := r.Header["Anthropic-Version"]; there {
		return Anthropic
	}
	return OpenAI
}

// failure is the status and the body of an answer with an error.
func (x *Exchange) failure(e *openai.Error) (status int, body any) {
	if x.Form == Anthropic {
		failed := anthropic.ErrorOf(x.shown(e), x.ID)
		return failed.Status, failed
	}
	return e.Status, e
}

// shown is an error with a message that the client shows its user. Claude Code replaces the message of a 404 of
// /v1/messages by one of its own, which blames the model, and shows the message of a 400.
func (x *Exchange) shown(e *openai.Error) *openai.Error {
	if !x.hides404 || e.Status != http.StatusNotFound || !strings.HasPrefix(x.Route, "/v1/messages") {
		return e
	}
	shown := *e
	shown.Status = http.StatusBadRequest
	return &shown
}

// hides404 reports whether the client is Claude Code.
func hides404(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "claude-cli/") }

// markHeader adds the headers that an answer has in this form.
func (f Form) markHeader(h http.Header, x *Exchange) {
	if f == Anthropic {
		h.Set("Request-Id", x.ID)
		x.Grant.MarkAnthropicHeader(h, x.counts())
		return
	}
	x.Grant.MarkHeader(h, x.counts())
}
