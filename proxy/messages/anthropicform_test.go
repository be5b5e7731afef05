package messages_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/api/apitest"
)

func TestErrorsInAnthropicsForm(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice models=other")
	breaking := proxy.Route{Method: http.MethodPost, Path: "/v1/broken", Access: proxy.Keyed, Form: proxy.Anthropic,
		Handler: func(http.ResponseWriter, *http.Request, *proxy.Exchange) error { panic("broken") }}
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys, o.Route = keys, &breaking })
	bearer := []string{"Authorization", "Bearer " + secrets[0]}
	for name, tc := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		kind, words        string
	}{
		"no key": {method: "GET", path: "/v1/models", header: apitest.AnthropicVersion, status: 401,
			kind: "authentication_error", words: "Authorization: Bearer KEY"},
		"no such path": {method: "GET", path: "/v1/complete", header: apitest.AnthropicVersion, status: 404,
			kind: "not_found_error", words: "/v1/messages"},
		"wrong method": {method: "DELETE", path: "/v1/models", header: apitest.AnthropicVersion, status: 405,
			kind: "invalid_request_error", words: "GET"},
		"a model that the key may not use": {method: "POST", path: "/v1/chat/completions", body: apitest.Hello(""),
			header: append(bearer, apitest.AnthropicVersion...), status: 404, kind: "not_found_error", words: "`demo`"},
		"too large": {method: "POST", path: "/v1/chat/completions", body: strings.Repeat(" ", 1<<20+1),
			header: append(bearer, apitest.AnthropicVersion...), status: 413, kind: "request_too_large", words: "body_limit"},
		"a panic, by the route": {method: "POST", path: "/v1/broken", header: bearer, status: 500, kind: "api_error",
			words: "request_id="},
		"the method, by the route": {method: "GET", path: "/v1/broken", header: bearer, status: 405,
			kind: "invalid_request_error", words: "POST"},
		"a slash at its end": {method: "POST", path: "/v1/broken/", header: bearer, status: 500, kind: "api_error",
			words: "internal error"},
		"the path, by the guess": {method: "POST", path: "/v1/v1/broken", header: bearer, status: 404,
			kind: "not_found_error", words: "did you mean /v1/broken?"},
		"below the route": {method: "POST", path: "/v1/broken/below", header: bearer, status: 404,
			kind: "not_found_error", words: "/v1/broken/below"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := r.Do(t, tc.method, tc.path, tc.body, append(tc.header, "X-Request-Id", "mine")...)
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, "mine", resp.Header.Get("Request-Id"))
			assert.Equal(t, "mine", resp.Header.Get("X-Request-Id"))
			kind, message, id := apitest.AnthropicFailure(t, apitest.Text(t, resp))
			assert.Equal(t, tc.kind, kind)
			assert.Contains(t, message, tc.words)
			assert.Equal(t, "mine", id)
		})
	}
	resp := r.Do(t, http.MethodGet, "/v1/models", "")
	assert.Equal(t, "invalid_api_key", apitest.Failure(t, apitest.Text(t, resp)).Error.Code, "without the header it is OpenAI's form")
	assert.Empty(t, resp.Header.Get("Request-Id"))
}

func TestKeysOfAnthropicsClients(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice", "bob")
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys = keys })
	for name, tc := range map[string]struct {
		header []string
		key    string
	}{
		"x-api-key":              {[]string{"x-api-key", secrets[1]}, "bob"},
		"both":                   {[]string{"x-api-key", secrets[1], "Authorization", "Bearer " + secrets[0]}, "alice"},
		"beside a wrong bearer":  {[]string{"x-api-key", secrets[1], "Authorization", "Bearer sk-ant-x"}, "bob"},
		"beside a wrong api key": {[]string{"x-api-key", "sk-ant-x", "Authorization", "Bearer " + secrets[0]}, "alice"},
		"wrong":                  {[]string{"x-api-key", secrets[1][1:]}, ""},
		"empty":                  {[]string{"x-api-key", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			resp := r.Do(t, http.MethodGet, "/v1/models", "", append(tc.header, "X-Request-Id", id)...)
			if tc.key == "" {
				assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
				return
			}
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, tc.key, r.Log.Request(t, id)["key"])
		})
	}
	for _, secret := range secrets {
		assert.NotContains(t, r.Log.String(), secret)
	}
}

func TestLimitHeadersOfAnthropic(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=3 tokens-per-minute=30", "bob tokens-per-day=1000", "carol")
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Keys = keys })
	limits := func(secret string) map[string]string {
		began := time.Now().UTC().Truncate(time.Second)
		resp := r.Do(t, http.MethodGet, "/v1/models", "", append(apitest.AnthropicVersion, "x-api-key", secret)...)
		found := map[string]string{}
		for name := range resp.Header {
			assert.NotRegexp(t, "^X-Ratelimit", name, "those are OpenAI's")
			what, ok := strings.CutPrefix(name, "Anthropic-Ratelimit-")
			if !ok {
				continue
			}
			found[what] = resp.Header.Get(name)
			if strings.HasSuffix(what, "-Reset") {
				at, err := time.Parse(time.RFC3339, found[what])
				require.NoError(t, err)
				assert.False(t, at.Before(began))
				found[what] = strconv.FormatBool(at.After(began.Add(time.Minute)))
			}
		}
		return found
	}
	assert.Equal(t, map[string]string{
		"Requests-Limit": "3", "Requests-Remaining": "3", "Requests-Reset": "false",
		"Tokens-Limit": "30", "Tokens-Remaining": "30", "Tokens-Reset": "false",
	}, limits(secrets[0]))
	day := limits(secrets[1])
	delete(day, "Tokens-Reset") // at midnight
	assert.Equal(t, map[string]string{"Tokens-Limit": "1000", "Tokens-Remaining": "1000"}, day)
	assert.Empty(t, limits(secrets[2]), "no limit, no header")
}
