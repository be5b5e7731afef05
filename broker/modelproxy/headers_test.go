package modelproxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request goes on with what codex asks a model by. What turns it into another request, or into one of somebody else,
// does not go on, nor does a parameter of the address that codex does not have.
func TestHeadersThatGoOn(t *testing.T) {
	var got *http.Request
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Clone(t.Context()) }))
	defer service.Close()
	var discard = slog.New(slog.DiscardHandler)
	provider, err := New(Endpoint{BaseURL: service.URL + "/backend-api/codex", Key: "sk-key"}, discard)
	require.NoError(t, err)
	accounts, err := ForAccounts(NewTokenSource(&fakeBroker{names: []string{"a"}}, nil, "", discard), service.URL, discard)
	require.NoError(t, err)

	passed := map[string]string{"Content-Type": "application/json", "Content-Encoding": "zstd", "Session-Id": "s",
		"X-Codex-Turn-Metadata": "{}", "X-Codex-Window-Id": "w", "X-Client-Request-Id": "c", "Originator": "codex_cli_rs",
		"User-Agent": "codex/0.169.0", "Openai-Beta": "b"}
	kept := map[string]string{"X-HTTP-Method-Override": "DELETE", "X-HTTP-Method": "DELETE", "X-Method-Override": "DELETE",
		"X-Original-URL": "/wham/tasks", "X-Rewrite-URL": "/wham/tasks", "X-Forwarded-Host": "h", "X-Forwarded-Prefix": "/p",
		"Forwarded": "for=1.2.3.4", "Cookie": "a=b", "OpenAI-Organization": "org", "OpenAI-Project": "p",
		"X-OpenAI-Actor-Authorization": "x", "X-OpenAI-Authorization": "x", "X-Api-Key": "k", "Api-Key": "k",
		"Proxy-Authorization": "x", "X-Openai-Account-Routing-Override": "x",
		"Accept-Encoding": "gzip"}
	for url, token := range map[string]string{
		start(t, provider) + "/responses":                   provider.Token,
		start(t, accounts) + "/backend-api/codex/responses": "x.y." + accounts.Token,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"?client_version=1&_method=DELETE", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		for _, headers := range []map[string]string{passed, kept} {
			for name, value := range headers {
				r.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.NotNil(t, got)
		assert.Equal(t, "client_version=1", got.URL.RawQuery)
		for name, value := range passed {
			assert.Equal(t, value, got.Header.Get(name), name)
		}
		for name := range kept {
			assert.Empty(t, got.Header.Values(name), name)
		}
		assert.NotContains(t, got.Header.Get("Authorization"), token)
	}
}

// A request goes on without the names of trailers, and a GET without a body.
func TestPartsThatDoNotGoOn(t *testing.T) {
	var got *http.Request
	var body []byte
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got = r.Clone(t.Context())
	}))
	defer service.Close()
	l, err := ForWorker(Endpoint{BaseURL: service.URL}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := start(t, l)
	const head = " HTTP/1.1\r\nHost: x\r\n"
	assert.Equal(t, http.StatusOK, raw(t, url, "POST /responses"+head+
		"Transfer-Encoding: chunked\r\nTrailer: X-Tool\r\n\r\n5\r\nhello\r\n0\r\nX-Tool: x\r\n\r\n"))
	assert.Equal(t, "hello", string(body))
	assert.Empty(t, got.Trailer)
	assert.Equal(t, http.StatusOK, raw(t, url, "GET /models"+head+"Content-Length: 5\r\n\r\nhello"))
	assert.Empty(t, body)
}

// The login in the address of an endpoint goes to it, unless there is a key.
func TestLoginOfTheAddress(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer service.Close()
	base := strings.Replace(service.URL, "http://", "http://user:secret@", 1)
	for key, want := range map[string]string{"": "Basic dXNlcjpzZWNyZXQ=", "sk-key": "Bearer sk-key"} {
		l, err := ForWorker(Endpoint{BaseURL: base, Key: key}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Equal(t, want, textOf(t, ask(t, start(t, l)+"/responses", "", "")))
	}
}
