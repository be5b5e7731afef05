package proxy

import (
	"net/http"

	"codex-proxy/proxy/anthropic"
	"codex-proxy/proxy/openai"
)

// Form is the API whose form an answer has: its errors, and the headers of its limits.
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
func (f Form) failure(e *openai.Error, requestID string) (status int, body any) {
	if f == Anthropic {
		failed := anthropic.ErrorOf(e, requestID)
		return failed.Status, failed
	}
	return e.Status, e
}

// markHeader adds the headers that an answer has in this form.
func (f Form) markHeader(h http.Header, x *Exchange) {
	if f == Anthropic {
		h.Set("Request-Id", x.ID)
		x.Grant.MarkAnthropicHeader(h, x.counts())
		return
	}
	x.Grant.MarkHeader(h, x.counts())
}
