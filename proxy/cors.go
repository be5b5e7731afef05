package proxy

import (
	"net/http"
	"slices"
	"strings"

	"codex-proxy/proxy/auth"
)

// exposedHeaders are the headers of ours that a page may read.
const exposedHeaders = "X-Request-Id, X-Codex-Account, X-Codex-Attempts, X-Codex-Ignored-Params, " +
	"X-Codex-Session, X-Codex-Session-New, " +
	"Retry-After, X-Should-Retry, " +
	"X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests, " +
	"X-Ratelimit-Limit-Tokens, X-Ratelimit-Remaining-Tokens, X-Ratelimit-Reset-Tokens, " +
	"Request-Id, " +
	"Anthropic-Ratelimit-Requests-Limit, Anthropic-Ratelimit-Requests-Remaining, " +
	"Anthropic-Ratelimit-Requests-Reset, " +
	"Anthropic-Ratelimit-Tokens-Limit, Anthropic-Ratelimit-Tokens-Remaining, Anthropic-Ratelimit-Tokens-Reset"

// cors lets the pages of configured origins use the API: without cookies, with a key
// that the page itself has. While there is no key, no page may; probes and metrics are
// closed to pages in any case.
// Source: https://fetch.spec.whatwg.org/#http-cors-protocol
func cors(origins []string, keys *auth.Keys, h http.Header, r *http.Request) {
	if len(origins) == 0 || keys.Empty() || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return
	case slices.Contains(origins, "*"):
		origin = "*"
	case !slices.Contains(origins, origin):
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		preflight(h, r)
	}
}

// preflight allows all headers that the browser names: client libraries add their own,
// and Authorization has to be named.
func preflight(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Max-Age", "600")
	asked := r.Header.Get("Access-Control-Request-Headers")
	if len(asked) <= 2048 && !strings.ContainsFunc(asked, notInHeaderNames) {
		h.Set("Access-Control-Allow-Headers", asked)
	}
}

func notInHeaderNames(c rune) bool {
	return !strings.ContainsRune("-_, ", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}
