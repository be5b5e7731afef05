package modelproxy

import (
	"net/http"
	"net/url"
	"strings"
)

// codexHeaders are the headers by which codex asks a model for something, beside those of codexPrefix. A tool knows the
// token of the model proxy, too. With others it could make another request of one that is allowed
// (X-HTTP-Method-Override, X-Original-URL), or a request for somebody else (OpenAI-Organization,
// X-OpenAI-Actor-Authorization). Answers come without a coding (Accept-Encoding), as the bound of their events counts
// bytes.
var codexHeaders = map[string]bool{
	"Accept": true, "Content-Encoding": true, "Content-Type": true, "User-Agent": true,
	"Originator": true, "Version": true, "Traceparent": true, "Tracestate": true,
	"Session-Id": true, "Session_id": true, "Thread-Id": true, "Thread_id": true, "Conversation_id": true,
	"Openai-Beta": true, "X-Client-Request-Id": true, "X-Oai-Attestation": true, "X-Openai-Memgen-Request": true,
	"X-Openai-Product-Sku": true, "X-Openai-Subagent": true, "X-Openai-Tool-Output-Truncation-Policy": true,
	"X-Openai-Internal-Codex-Residency": true, "X-Openai-Internal-Codex-Responses-Lite": true,
	"X-Responsesapi-Include-Timing-Metrics": true,
}

const codexPrefix = "X-Codex-"

// headersOf are the headers of a request that go on.
func headersOf(h http.Header) http.Header {
	passed := http.Header{}
	for name, values := range h {
		if codexHeaders[name] || strings.HasPrefix(name, codexPrefix) {
			passed[name] = values
		}
	}
	return passed
}

// queryOf is the part of a query that goes on: codex asks for the models of its version.
func queryOf(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	const version = "client_version"
	passed := url.Values{}
	if values, has := u.Query()[version]; has {
		passed[version] = values
	}
	return passed.Encode()
}
