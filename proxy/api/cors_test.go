package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func TestCORS(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice")
	one := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, func(o *apitest.Options) {
		o.Keys, o.CORSOrigins = keys, []string{"https://app.example", "http://localhost:3000"}
	})
	any := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys, o.CORSOrigins = keys, []string{"*"} })
	keyless := apitest.NewRig(t, nil, func(o *apitest.Options) { o.CORSOrigins = []string{"*"} })
	for _, tc := range []struct {
		name          string
		r             *apitest.Rig
		method, path  string
		origin, allow string
		status        int
	}{
		{"configured", one, "POST", "/v1/chat/completions", "https://app.example", "https://app.example", 200},
		{"the other one", one, "GET", "/v1/models", "http://localhost:3000", "http://localhost:3000", 200},
		{"an error is readable, too", one, "GET", "/v1/nothing", "https://app.example", "https://app.example", 404},
		{"a stranger", one, "GET", "/v1/models", "https://evil.example", "", 200},
		{"nearly", one, "GET", "/v1/models", "https://app.example.evil.example", "", 200},
		{"null", one, "GET", "/v1/models", "null", "", 200},
		{"no page", one, "GET", "/v1/models", "", "", 200},
		{"not for the rest", one, "GET", "/healthz", "https://app.example", "", 200},
		{"not for metrics", one, "GET", "/metrics", "https://app.example", "", 200},
		{"without keys no page", keyless, "GET", "/v1/models", "https://evil.example", "", 503},
		{"anyone", any, "GET", "/v1/models", "https://evil.example", "*", 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := ""
			if tc.method == http.MethodPost {
				body = apitest.Hello("")
			}
			resp := tc.r.Do(t, tc.method, tc.path, body, "Origin", tc.origin, "Authorization", "Bearer "+secrets[0])
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.allow, resp.Header.Get("Access-Control-Allow-Origin"))
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Credentials"))
			assert.Equal(t, tc.allow != "", resp.Header.Get("Access-Control-Expose-Headers") != "")
		})
	}
}

func TestPreflight(t *testing.T) {
	keys, _ := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys, o.CORSOrigins = keys, []string{"https://app.example"} })
	ask := func(origin, headers string) http.Header {
		resp := r.Do(t, http.MethodOptions, "/v1/chat/completions", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers)
		assert.Equal(t, http.StatusNoContent, resp.StatusCode, "no key can be sent with it")
		assert.Contains(t, resp.Header.Get("Vary"), "Origin")
		return resp.Header
	}
	h := ask("https://app.example", "authorization,content-type,x-stainless-os")
	assert.Equal(t, "https://app.example", h.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "authorization,content-type,x-stainless-os", h.Get("Access-Control-Allow-Headers"))
	assert.Contains(t, h.Get("Access-Control-Allow-Methods"), "POST")
	assert.Equal(t, "600", h.Get("Access-Control-Max-Age"))
	assert.Empty(t, ask("https://app.example", "a;b").Get("Access-Control-Allow-Headers"))
	h = ask("https://evil.example", "authorization")
	assert.Empty(t, h.Get("Access-Control-Allow-Origin"))
	assert.Empty(t, h.Get("Access-Control-Allow-Headers"))
}
