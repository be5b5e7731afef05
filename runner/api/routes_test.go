package api_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"codex-proxy/runner/api"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
)

// operations are those of the document, as "METHOD /path".
func operations(t *testing.T) (all []string) {
	t.Helper()
	var document struct{ Paths map[string]map[string]any }
	require.NoError(t, yaml.Unmarshal(wire.Document(), &document))
	for path, methods := range document.Paths {
		for method := range methods {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// as calls the server as a user without privileges, judged by the document.
func (b *bed) as(uid uint32, method, path, kind, body string) (int, wire.Failure) {
	b.t.Helper()
	r := httptest.NewRequestWithContext(api.WithUID(b.t.Context(), uid), method, path, nil)
	if kind != "" {
		r = httptest.NewRequestWithContext(api.WithUID(b.t.Context(), uid), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
	}
	return b.answer(r)
}

// upgrade asks for a stream as a user without privileges.
func (b *bed) upgrade(uid uint32, path, protocol string) (int, wire.Failure) {
	b.t.Helper()
	r := httptest.NewRequestWithContext(api.WithUID(b.t.Context(), uid), http.MethodPost, path, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	return b.answer(r)
}

// answer is the server's answer, judged by the document.
func (b *bed) answer(r *http.Request) (int, wire.Failure) {
	b.t.Helper()
	method, path := r.Method, r.URL.Path
	w := httptest.NewRecorder()
	apitest.Judge(b.t, b.server.Handler()).ServeHTTP(w, r)
	var f wire.Failure
	if w.Code >= http.StatusBadRequest {
		require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &f), w.Body.String())
		require.NotNil(b.t, f.Error, path)
		assert.Equal(b.t, f.Error.Code.Status(), w.Code)
		assert.NotEmpty(b.t, f.Error.Remedy, "%s %s: %s", method, path, f.Error.Message)
	}
	return w.Code, f
}

// Every operation of the document is served, and none shows the session of another user, or more than the document has.
func TestEveryOperation(t *testing.T) {
	b := newBed(t)
	s := b.create(truly) // of the user of this process
	const stranger = 4_000_000_000
	fill := strings.NewReplacer("{id}", s.ID, "{n}", "1", "{artifact}", "1", "{key}", "0123456789abcdef",
		"{port}", "8080")
	bodies := map[string]string{
		"POST /v1/sessions": truly, "POST /v1/sessions/{id}/commands": `{"args":["true"]}`,
		"POST /v1/sessions/{id}/cancel": `{}`, "POST /v1/prune": `{}`, "POST /v1/repositories": `{"path":"/srv/app"}`,
	}
	octets := map[string]bool{"PUT /v1/sessions/{id}/commands/{n}/stdin": true, "PUT /v1/repositories/{key}/bundle": true}
	own := map[string]bool{ // what everybody has, or may make
		"GET /v1/openapi.yaml": true, "GET /v1/status": true, "GET /v1/watch": true, "POST /v1/sessions": true, "GET /v1/sessions": true,
		"POST /v1/prune": true, "GET /v1/repositories": true, "POST /v1/repositories": true,
	}
	for _, operation := range operations(t) {
		method, path, _ := strings.Cut(operation, " ")
		kind, body := "", bodies[operation]
		if body != "" {
			kind = "application/json"
		} else if octets[operation] {
			kind, body = "application/octet-stream", "x"
		}
		status, f := b.as(stranger, method, fill.Replace(path), kind, body)
		if kind == "application/json" {
			for _, bad := range []string{"", "{", "null x", `{"no_such_field":1}`, "[]"} {
				b.refuses(method, fill.Replace(path), bad)
			}
		}
		if own[operation] {
			assert.Less(t, status, http.StatusBadRequest, "%s: %+v", operation, f.Error)
			continue
		}
		assert.Contains(t, []int{http.StatusNotFound, http.StatusForbidden, http.StatusBadRequest}, status, operation)
		assert.NotContains(t, f.Error.Message, "there is no "+method, "%s is not served", operation)
	}
	_, f := b.as(stranger, http.MethodGet, "/v1/sessions?all=true", "", "")
	assert.Equal(t, wire.Forbidden, f.Error.Code)
	_, f = b.as(stranger, http.MethodPost, "/v1/prune", "application/json", `{"all":true}`)
	assert.Equal(t, wire.Forbidden, f.Error.Code)
	_, f = b.as(stranger, http.MethodGet, "/metrics", "", "")
	assert.Equal(t, wire.Forbidden, f.Error.Code)
}

// refuses asserts that a body that the document does not allow is an invalid request. The judge is left out: it is about
// good requests.
func (b *bed) refuses(method, path, body string) {
	b.t.Helper()
	r := httptest.NewRequestWithContext(api.WithUID(b.t.Context(), 0), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	b.server.Handler().ServeHTTP(w, r)
	var f wire.Failure
	require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &f), w.Body.String())
	require.NotNil(b.t, f.Error, "%s %s %q", method, path, body)
	assert.Equal(b.t, wire.InvalidRequest, f.Error.Code, "%s %s %q", method, path, body)
}

// A connection that is no unix socket has no user.
func TestWithoutCredentials(t *testing.T) {
	b := newBed(t)
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	r := httptest.NewRequestWithContext(api.WithPeer(context.Background(), one), http.MethodGet, "/v1/status", nil)
	w := httptest.NewRecorder()
	b.server.Handler().ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code)
}
