package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A path that nearly exists is named; the usual cause is a base URL with /v1 once
// too often, or without it.
func TestNearPaths(t *testing.T) {
	r := apitest.NewRig(t, nil)
	for path, meant := range map[string]string{
		"/chat/completions":         "/v1/chat/completions",
		"//v1/chat/completions":     "/v1/chat/completions",
		"/v1/v1/chat/completions":   "/v1/chat/completions",
		"/v1/v1/v1/models/org/name": "/v1/models/org/name",
		"/readyz/":                  "/readyz",
		"/v1/readyz":                "/readyz",
	} {
		e := apitest.Failure(t, apitest.Text(t, r.Do(t, http.MethodGet, path, ""))).Error
		assert.Equal(t, "not_found", e.Code, path)
		assert.Contains(t, e.Message, "did you mean "+meant+"?", path)
	}
}

// Paths of the API may end in a slash, and be those of Azure, whose deployment is the model.
func TestOtherPaths(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice models=demo")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys = keys })
	const chat, version = `"messages":[{"role":"user","content":"hello"}]}`, "?api-version=2024-10-21"
	for _, tc := range []struct {
		path, body, route string
		status            int
	}{
		{"/v1/models/", "", "/v1/models", 200},
		{"/v1/chat/completions//", apitest.Hello(""), "/v1/chat/completions", 200},
		{"/v1/responses/", apitest.Asked("", `"q"`), "/v1/responses", 200},
		{"/openai/v1/chat/completions", apitest.Hello(""), "/v1/chat/completions", 200},
		{"/openai/v1/models/", "", "/v1/models", 200},
		{"/openai/v1/responses/resp_1", "", "/v1/responses/{id}", 404},
		{"/openai/responses" + version, apitest.Asked("", `"q"`), "/v1/responses", 200},
		{"/openai/deployments/demo/chat/completions" + version, `{` + chat, "/v1/chat/completions", 200},
		{"/openai/deployments/demo/chat/completions" + version, `{"model":"other",` + chat, "/v1/chat/completions", 200},
		{"/openai/deployments/other/chat/completions", apitest.Hello(""), "/v1/chat/completions", 404},
		{"/openai/deployments/demo/completions", `{"prompt":"q"}`, "/v1/completions", 200},
		{"/openai/deployments/demo/embeddings", `{"input":"q"}`, "/v1/embeddings", 404},
		{"/openai/deployments/demo/responses", apitest.Asked("", `"q"`), "other", 404},
		{"/openai/deployments//chat/completions", `{` + chat, "/v1/chat/completions", 400},
		{"/openai/deployments/demo", "", "other", 404},
		{"/openai/readyz", "", "other", 404},
	} {
		method := http.MethodGet
		if tc.body != "" {
			method = http.MethodPost
		}
		resp := r.Do(t, method, tc.path, tc.body, "api-key", secrets[0])
		assert.Equal(t, tc.status, resp.StatusCode, "%s: %s", tc.path, apitest.Text(t, resp))
		line := r.Log.Request(t, resp.Header.Get("X-Request-Id"))
		assert.Equal(t, tc.route, line["route"], tc.path)
		if tc.status == http.StatusOK && tc.body != "" {
			assert.Equal(t, "demo", line["model"], tc.path)
		}
	}
}

func TestOptions(t *testing.T) {
	keys, _ := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Keys = keys })
	for path, allow := range map[string]string{
		"/v1/chat/completions": "OPTIONS, POST", "/v1/models": "GET, HEAD, OPTIONS",
		"/v1/models/a/b": "GET, HEAD, OPTIONS", "/livez": "GET, HEAD, OPTIONS",
	} {
		resp := r.Do(t, http.MethodOptions, path, "", "Origin", "https://example.org",
			"Access-Control-Request-Method", "POST")
		assert.Equal(t, http.StatusNoContent, resp.StatusCode, path)
		assert.Equal(t, allow, resp.Header.Get("Allow"), path)
		for name := range resp.Header {
			assert.NotContains(t, name, "Access-Control", "CORS is off")
		}
	}
}

func TestLongPathsAreNotRepeatedWhole(t *testing.T) {
	r := apitest.NewRig(t, nil)
	e := apitest.Failure(t, apitest.Text(t, r.Do(t, http.MethodGet, "/"+strings.Repeat("a", 4000), "")))
	assert.Less(t, len(e.Error.Message), 300)
}
