package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/chat"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/messages"
	"codex-proxy/proxy/models"
	"codex-proxy/proxy/responses"
)

// The whole surface, and who may use it. A route that is not here is a mistake
// here or there.
func TestRoutes(t *testing.T) {
	got := map[string]proxy.Access{}
	chats, catalogue := &chat.Endpoint{}, &models.Endpoint{}
	for _, route := range slices.Concat(chats.Routes(), responses.New(responses.Settings{}).Routes(),
		(&messages.Endpoint{}).Routes(), catalogue.Routes(), (&conversations.Endpoint{}).Routes()) {
		got[route.Method+" "+route.Path] = route.Access
	}
	assert.Equal(t, map[string]proxy.Access{
		"POST /v1/chat/completions":          proxy.Keyed,
		"POST /v1/responses":                 proxy.Keyed,
		"GET /v1/responses":                  proxy.Keyed,
		"GET /v1/models":                     proxy.Keyed,
		"GET /v1/models/{id...}":             proxy.Keyed,
		"GET /v1/responses/{id}":             proxy.Keyed,
		"DELETE /v1/responses/{id}":          proxy.Keyed,
		"POST /v1/responses/{id}/cancel":     proxy.Keyed,
		"POST /v1/responses/input_tokens":    proxy.Keyed,
		"POST /v1/responses/compact":         proxy.Keyed,
		"GET /v1/responses/{id}/input_items": proxy.Keyed,
		"POST /v1/messages":                  proxy.Keyed,
		"POST /v1/messages/count_tokens":     proxy.Keyed,
		"* /v1/messages/batches":             proxy.Keyed,
		"* /v1/messages/batches/{path...}":   proxy.Keyed,

		"POST /v1/conversations":                               proxy.Keyed,
		"GET /v1/conversations/{conversation}":                 proxy.Keyed,
		"POST /v1/conversations/{conversation}":                proxy.Keyed,
		"DELETE /v1/conversations/{conversation}":              proxy.Keyed,
		"POST /v1/conversations/{conversation}/items":          proxy.Keyed,
		"GET /v1/conversations/{conversation}/items":           proxy.Keyed,
		"GET /v1/conversations/{conversation}/items/{item}":    proxy.Keyed,
		"DELETE /v1/conversations/{conversation}/items/{item}": proxy.Keyed,
	}, got)
}

func TestKeys(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice", "bob")
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, func(o *apitest.Options) { o.Keys = keys })
	for name, header := range map[string]string{
		"none": "", "wrong": "Bearer sk-codex-wrong", "empty": "Bearer ", "another scheme": "Basic " + secrets[0],
		"cut": "Bearer " + secrets[0][:20],
	} {
		t.Run(name, func(t *testing.T) {
			for _, resp := range []*http.Response{
				r.Chatting(t, apitest.Hello(""), "Authorization", header),
				r.Do(t, http.MethodGet, "/v1/models", "", "Authorization", header),
			} {
				assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
				assert.Equal(t, "Bearer", resp.Header.Get("WWW-Authenticate"))
				assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
				e := apitest.Failure(t, apitest.Text(t, resp)).Error
				assert.Equal(t, "invalid_request_error", e.Type)
				assert.Equal(t, "invalid_api_key", e.Code)
			}
		})
	}
	for i, name := range []string{"alice", "bob"} {
		resp := r.Chatting(t, apitest.Hello(""), "Authorization", "bearer "+secrets[i], "X-Request-Id", name)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, name, r.Log.Request(t, name)["key"])
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/metrics"} {
		assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, path, "").StatusCode, path)
	}
	for _, secret := range secrets {
		assert.NotContains(t, r.Log.String(), secret)
	}
}

// A page whose name leads here has this machine's address, and is of the same
// origin as what it asks for.
func TestWithoutKeysOnlyThisHostIsAskedFor(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann")
	open, closed := apitest.NewRig(t, nil), apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	ask := func(r *apitest.Rig, method, path, from, host string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		req.RemoteAddr, req.Host = from, host
		req.Header.Set("Authorization", "Bearer "+secrets[0])
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		return w
	}
	const local = "127.0.0.1:4711"
	for _, host := range []string{"localhost:8787", "LOCALHOST", "127.0.0.1:8787", "127.1.2.3", "[::1]:8787", "[::1]"} {
		assert.Equal(t, http.StatusOK, ask(open, http.MethodGet, "/metrics", local, host).Code, host)
	}
	for _, host := range []string{"evil.example:8787", "evil.example", "localhost.evil.example",
		"127.0.0.1.evil.example", "192.0.2.1", ""} {
		for _, path := range []string{"/metrics", "/v1/models", "/v1/responses"} {
			w := ask(open, http.MethodGet, path, local, host)
			assert.Equal(t, http.StatusForbidden, w.Code, "%s %s", host, path)
			e := apitest.Failure(t, w.Body.String()).Error
			assert.Equal(t, "host_not_allowed", e.Code)
			assert.Contains(t, e.Message, "codex-proxy keys add")
		}
		assert.NotEqual(t, http.StatusForbidden, ask(open, http.MethodGet, "/readyz", local, host).Code, host)
	}
	assert.Equal(t, http.StatusForbidden, ask(open, http.MethodGet, "/metrics", "[::1]:4711", "evil.example").Code)
	assert.Equal(t, http.StatusOK, ask(open, http.MethodGet, "/metrics", "@", "api.example.com").Code, "a unix socket")
	assert.Equal(t, http.StatusOK, ask(closed, http.MethodGet, "/metrics", local, "api.example.com").Code,
		"a key is enough")
}

// What a reverse proxy passes on is for somebody else, whatever it asks for, and over
// a unix socket as over TCP.
func TestWithoutKeysNothingIsPassedOn(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann")
	open, closed := apitest.NewRig(t, nil), apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	ask := func(r *apitest.Rig, path, from, proto, header string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.RemoteAddr, req.Host, req.Proto = from, "127.0.0.1:8787", proto
		req.ProtoMajor, req.ProtoMinor, _ = http.ParseHTTPVersion(proto)
		req.Header.Set("Authorization", "Bearer "+secrets[0])
		if header != "" {
			req.Header.Set(header, "x")
		}
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, req)
		return w
	}
	for _, from := range []string{"127.0.0.1:4711", "@"} {
		for _, tc := range [][2]string{
			{"HTTP/1.1", "X-Forwarded-For"}, {"HTTP/1.1", "X-Forwarded-Host"}, {"HTTP/1.1", "X-Forwarded-Proto"},
			{"HTTP/1.1", "X-Real-IP"}, {"HTTP/1.1", "Forwarded"}, {"HTTP/1.1", "Via"}, {"HTTP/1.0", ""},
		} {
			for _, path := range []string{"/v1/models", "/v1/responses", "/v1/responses/x", "/metrics"} {
				w := ask(open, path, from, tc[0], tc[1])
				assert.Equal(t, http.StatusForbidden, w.Code, "%s %s", tc, path)
				e := apitest.Failure(t, w.Body.String()).Error
				assert.Equal(t, "forwarding_not_allowed", e.Code)
				assert.Contains(t, strings.ToLower(e.Message), "a request with "+strings.ToLower(cmp.Or(tc[1], tc[0])))
				assert.Contains(t, e.Message, "codex-proxy keys add")
			}
			assert.NotEqual(t, http.StatusForbidden, ask(open, "/readyz", from, tc[0], tc[1]).Code)
			assert.Equal(t, http.StatusOK, ask(closed, "/metrics", from, tc[0], tc[1]).Code, "a key is enough")
		}
		assert.Equal(t, http.StatusOK, ask(open, "/metrics", from, "HTTP/1.1", "User-Agent").Code)
	}
}

// A file that has had a key lets nobody in when none is left.
func TestClosedWithoutAKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann")
	require.NoError(t, keys.Replace(auth.ClosedLine()))
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	for _, path := range []string{"/v1/models", "/v1/responses"} {
		resp := r.Do(t, http.MethodGet, path, "", "Authorization", "Bearer "+secrets[0])
		assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message,
			"there is none, so that nobody is let in until the operator makes one: codex-proxy keys add NAME")
	}
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/metrics", "").StatusCode, "of this machine itself")
	assert.Equal(t, http.StatusUnauthorized, r.Do(t, http.MethodGet, "/metrics", "", "Via", "1.1 front").StatusCode)
	require.NoError(t, keys.Replace("")) // opened
	assert.Equal(t, http.StatusServiceUnavailable, r.Do(t, http.MethodGet, "/v1/models", "").StatusCode)
}

// Who comes through a reverse proxy on this machine has this machine's address.
func TestMetricsFromElsewhereNeedAKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "prometheus")
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	for name, tc := range map[string]struct {
		from, host, proto string
		header            [2]string
		free              bool
	}{
		"here":              {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1", [2]string{}, true},
		"here by name":      {"127.0.0.1:4711", "localhost:8787", "HTTP/1.1", [2]string{}, true},
		"here over IPv6":    {"[::1]:4711", "[::1]:8787", "HTTP/1.1", [2]string{}, true},
		"the default port":  {"[::1]:4711", "[::1]", "HTTP/1.1", [2]string{}, true},
		"elsewhere":         {"192.0.2.1:4711", "localhost:8787", "HTTP/1.1", [2]string{}, false},
		"another name":      {"127.0.0.1:4711", "proxy.example", "HTTP/1.1", [2]string{}, false},
		"no name":           {"127.0.0.1:4711", "", "HTTP/1.1", [2]string{}, false},
		"a similar name":    {"127.0.0.1:4711", "localhost.example:80", "HTTP/1.1", [2]string{}, false},
		"nginx before 1.29": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.0", [2]string{}, false},
		"X-Forwarded-For": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1",
			[2]string{"X-Forwarded-For", "127.0.0.1"}, false},
		"empty": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1", [2]string{"X-Forwarded-For", ""}, false},
		"X-Real-IP": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1", [2]string{"X-Real-IP", "192.0.2.1"},
			false},
		"Forwarded": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1",
			[2]string{"Forwarded", "for=192.0.2.1"}, false},
		"Via": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1", [2]string{"Via", "1.1 front"}, false},
		"X-Forwarded-Proto": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1",
			[2]string{"X-Forwarded-Proto", "https"}, false},
		"X-Forwarded-Host": {"127.0.0.1:4711", "127.0.0.1:8787", "HTTP/1.1",
			[2]string{"X-Forwarded-Host", "proxy.example"}, false},
		"not an address": {"@", "127.0.0.1:8787", "HTTP/1.1", [2]string{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			req.RemoteAddr, req.Host, req.Proto = tc.from, tc.host, tc.proto
			req.ProtoMajor, req.ProtoMinor, _ = http.ParseHTTPVersion(tc.proto)
			if tc.header[0] != "" {
				req.Header.Set(tc.header[0], tc.header[1])
			}
			without := httptest.NewRecorder()
			r.Handler().ServeHTTP(without, req)
			if tc.free {
				assert.Equal(t, http.StatusOK, without.Code)
			} else {
				assert.Equal(t, http.StatusUnauthorized, without.Code)
				assert.Contains(t, without.Body.String(), "is for this machine alone")
				assert.NotContains(t, without.Body.String(), "codex_ready")
			}
			req.Header.Set("Authorization", "Bearer "+secrets[0])
			with := httptest.NewRecorder()
			r.Handler().ServeHTTP(with, req)
			assert.Equal(t, http.StatusOK, with.Code)
		})
	}
}

// Whoever comes through a reverse proxy on this host is not this host.
func TestMetricsThroughAReverseProxyNeedAKey(t *testing.T) {
	keys, _ := apitest.WithKeys(t, "prometheus")
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	for _, header := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"} {
		assert.Equal(t, http.StatusUnauthorized,
			r.Do(t, http.MethodGet, "/metrics", "", header, "192.0.2.1").StatusCode, header)
	}
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/metrics", "").StatusCode)
}

func TestRequestIDs(t *testing.T) {
	r := apitest.NewRig(t, nil)
	for name, tc := range map[string]struct {
		id   string
		kept bool
	}{
		"none":        {"", false},
		"good":        {"req-1.a:b/c", true},
		"as long":     {strings.Repeat("x", 128), true},
		"too long":    {strings.Repeat("x", 129), false},
		"a space":     {"a b", false},
		"a quote":     {`a"b`, false},
		"a backslash": {`a\b`, false},
		"not ASCII":   {"é", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.Do(t, http.MethodGet, "/livez", "", "X-Request-Id", tc.id).Header.Get("X-Request-Id")
			if tc.kept {
				assert.Equal(t, tc.id, got)
			} else {
				assert.Regexp(t, `^req_[0-9a-f]{24}$`, got)
			}
			r.Log.Request(t, got)
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.BodyLimit = 1000 })
	for name, tc := range map[string]struct {
		method, path, body, contentType string
		status                          int
		code, allow                     string
		coding                          string
	}{
		"unknown path":       {"GET", "/v1/engines", "", "", 404, "not_found", "", ""},
		"a slash too many":   {"GET", "/livez/", "", "", 404, "not_found", "", ""},
		"and on a method":    {"DELETE", "/v1/models/", "", "", 405, "method_not_allowed", "GET, HEAD, OPTIONS", ""},
		"a remote of Azure":  {"GET", "/openai/v1/remotes", "", "", 404, "not_found", "", ""},
		"the root":           {"GET", "/", "", "", 404, "not_found", "", ""},
		"wrong method":       {"GET", "/v1/chat/completions", "", "", 405, "method_not_allowed", "OPTIONS, POST", ""},
		"wrong method too":   {"DELETE", "/v1/models", "", "", 405, "method_not_allowed", "GET, HEAD, OPTIONS", ""},
		"HEAD of a POST":     {"HEAD", "/v1/chat/completions", "", "", 405, "", "OPTIONS, POST", ""},
		"OPTIONS of nothing": {"OPTIONS", "/v1/engines", "", "", 404, "not_found", "", ""},
		"form": {"POST", "/v1/chat/completions", "a=b", "application/x-www-form-urlencoded", 415,
			"unsupported_media_type", "", ""},
		"no media type": {"POST", "/v1/chat/completions", "{}", "", 415, "unsupported_media_type", "", ""},
		"charset is allowed": {"POST", "/v1/chat/completions", "{", "application/json; charset=utf-8", 400,
			"invalid_json", "", ""},
		"too large": {"POST", "/v1/chat/completions", strings.Repeat(" ", 1001), "application/json", 413,
			"request_too_large", "", ""},
		"as large": {"POST", "/v1/chat/completions", strings.Repeat(" ", 1000), "application/json", 400,
			"invalid_json", "", ""},
		"compressed": {"POST", "/v1/chat/completions", "x", "application/json", 415,
			"unsupported_media_type", "", "br"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := r.Do(t, tc.method, tc.path, tc.body, "Content-Type", tc.contentType, "Content-Encoding", tc.coding)
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.allow, resp.Header.Get("Allow"))
			if tc.method == http.MethodHead {
				return
			}
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "invalid_request_error", e.Type)
			assert.Equal(t, tc.code, e.Code)
		})
	}
}

func TestProbes(t *testing.T) {
	unready, ready := apitest.NewRig(t, nil), apitest.NewRig(t, &appservertest.Server{})
	for path, status := range map[string]int{"/readyz": 503, "/healthz": 503, "/health": 503, "/livez": 200} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			resp := unready.Do(t, method, path, "")
			assert.Equal(t, status, resp.StatusCode, path)
			assert.Equal(t, status == 503, resp.Header.Get("Retry-After") != "", path)
			resp = ready.Do(t, method, path, "")
			assert.Equal(t, http.StatusOK, resp.StatusCode, path)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			body := apitest.Text(t, resp)
			if method == http.MethodHead {
				assert.Empty(t, body)
				continue
			}
			var report struct {
				OK      bool
				Workers []struct {
					Name  string
					Ready bool
				}
			}
			require.NoError(t, json.Unmarshal([]byte(body), &report))
			assert.True(t, report.OK)
			require.Len(t, report.Workers, 1)
			assert.True(t, report.Workers[0].Ready)
		}
	}
}

func TestPanicStaysWithinItsRequest(t *testing.T) {
	panics := func(w http.ResponseWriter, r *http.Request, _ *proxy.Exchange) error {
		if r.URL.Query().Has("late") {
			_, _ = fmt.Fprint(w, "half an answer")
			_ = http.NewResponseController(w).Flush()
		}
		panic("the secret reason")
	}
	r := apitest.NewRig(t, nil, func(o *apitest.Options) {
		o.Route = &proxy.Route{Method: http.MethodGet, Path: "/panic", Access: proxy.Public, Handler: panics}
	})
	resp := r.Do(t, http.MethodGet, "/panic", "", "X-Request-Id", "early")
	assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "server_error", e.Type)
	assert.Equal(t, "internal_error", e.Code)
	assert.Contains(t, e.Message, "request_id=early")
	assert.NotContains(t, e.Message, "secret")
	line := r.Log.Request(t, "early")
	assert.Equal(t, "ERROR", line["level"])
	assert.InDelta(t, 500, line["status"], 0)
	assert.Contains(t, r.Log.String(), "the secret reason")
	assert.Contains(t, r.Log.String(), "routes_test.go", "the stack names the place")

	resp = r.Do(t, http.MethodGet, "/panic?late", "", "X-Request-Id", "late")
	_, err := io.ReadAll(resp.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "half an answer must not look whole")
	assert.Equal(t, "internal_error", r.Log.Request(t, "late")["outcome"])
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/livez", "").StatusCode)
}

func TestRequestLine(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "the", " answer")},
		func(o *apitest.Options) { o.Keys = keys })
	body := `{"model":"demo","stream":true,"messages":[{"role":"user","content":"the question"}]}`
	apitest.Text(t, r.Chatting(t, body, "Authorization", "Bearer "+secrets[0], "X-Request-Id", "r1"))
	line := r.Log.Request(t, "r1")
	for key, want := range map[string]any{
		"level": "INFO", "method": "POST", "route": "/v1/chat/completions", "status": 200.0, "outcome": "ok",
		"key":   "alice",
		"model": "demo", "worker": "default", "stream": true, "input_tokens": 20.0, "output_tokens": 7.0,
	} {
		assert.Equal(t, want, line[key], key)
	}
	assert.Regexp(t, `^[0-9a-f-]{36}$`, line["thread_id"])
	ttfb, ok := line["ttfb_ms"].(float64)
	require.True(t, ok)
	assert.Positive(t, ttfb)
	assert.GreaterOrEqual(t, line["duration_ms"], ttfb)

	r.Do(t, http.MethodGet, "/livez", "", "X-Request-Id", "r2")
	assert.Equal(t, "DEBUG", r.Log.Request(t, "r2")["level"], "probes do not fill the journal")
	for _, secret := range []string{"question", "answer", secrets[0]} {
		assert.NotContains(t, r.Log.String(), secret)
	}
}

// What a failed turn says speaks of the client's own request, and is not logged.
func TestFailureIsLoggedWithoutContent(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: "cannot digest the word xyzzy", Info: "badRequest"}
	}})
	assert.Contains(t, apitest.Text(t, r.Chatting(t, apitest.Hello(""), "X-Request-Id", "r1")), "xyzzy")
	assert.Equal(t, "upstream_rejected", r.Log.Request(t, "r1")["outcome"])
	assert.NotContains(t, r.Log.String(), "xyzzy")
}
