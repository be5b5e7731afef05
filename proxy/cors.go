package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// exposed are the headers of ours that a page may read.
const exposed = "X-Request-Id, X-Codex-Attempts, X-Codex-Ignored-Params, Retry-After, X-Should-Retry, " +
	"X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests, " +
	"X-Ratelimit-Limit-Tokens, X-Ratelimit-Remaining-Tokens, X-Ratelimit-Reset-Tokens"

// allowOrigin lets the pages of configured origins use the API: without cookies,
// with a key that the page itself has. While there is no key, none may, and the
// probes and metrics stay closed.
// Source: https://fetch.spec.whatwg.org/#http-cors-protocol
func (s *Server) allowOrigin(h http.Header, r *http.Request) {
	if len(s.CORSOrigins) == 0 || s.Keys.Empty() || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return
	case slices.Contains(s.CORSOrigins, "*"):
		origin = "*"
	case !slices.Contains(s.CORSOrigins, origin):
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposed)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		s.preflight(h, r)
	}
}

// preflight allows whatever headers are asked for: client libraries add their
// own, and Authorization has to be named.
func (s *Server) preflight(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Max-Age", "600")
	if asked := r.Header.Get("Access-Control-Request-Headers"); len(asked) <= 2048 && !strings.ContainsFunc(asked, notInHeaderNames) {
		h.Set("Access-Control-Allow-Headers", asked)
	}
}

func notInHeaderNames(c rune) bool {
	return !strings.ContainsRune("-_, ", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}
