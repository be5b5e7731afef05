package modelproxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
)

// The path of a request names its account, which has a login and limits of its own. A path is no way past the account.
func TestSeveralAccounts(t *testing.T) {
	var mu sync.Mutex
	var got []string
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		token := r.Header.Get("Authorization")
		mu.Lock()
		got = append(got, r.URL.Path+" "+token+" "+r.Header.Get("ChatGPT-Account-ID"))
		mu.Unlock()
		if token == "Bearer old b" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Codex-Primary-Used-Percent", map[string]string{"Bearer a": "10", "Bearer b": "20"}[token])
		w.Header().Set("X-Codex-Primary-Window-Minutes", "300")
		_, _ = w.Write(body)
	}))
	defer endpoint.Close()
	of := func(first, next string) LoginSource {
		return func(_ context.Context, refused string) (broker.Login, error) {
			token := first
			if refused != "" {
				token = next
			}
			login := granted(token)
			login.AccountID = next
			return login, nil
		}
	}
	served := map[string]LoginSource{"a": of("a", "a"), "b": of("old b", "b")}
	at := OpenAI{ChatGPT: endpoint.URL + "/codex", API: endpoint.URL + "/v1"}
	proxy, err := ForLogin(of("a", "a"), served, at, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := httptest.NewServer(proxy)
	defer server.Close()
	for path, want := range map[string][]string{
		"/responses":            {"/codex/responses Bearer a a"},
		"/accounts/a/responses": {"/codex/responses Bearer a a"},
		"/accounts/b/responses": {"/codex/responses Bearer old b b", "/codex/responses Bearer b b"},
	} {
		got = nil
		res, text := posted(t, server, path, "hello")
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		assert.Equal(t, "hello", text)
		assert.Equal(t, want, got, path)
	}
	got = nil
	for path, status := range map[string]int{
		"/accounts/c/responses": http.StatusServiceUnavailable, "/accounts//responses": http.StatusServiceUnavailable,
		"/accounts/responses": http.StatusServiceUnavailable, "/accounts/a/wham/usage": http.StatusNotFound,
		"/accounts/b/accounts/a/responses": http.StatusNotFound, "/accounts/b/../a/responses": http.StatusNotFound,
		"/accounts/%62/responses/%2e": http.StatusServiceUnavailable,
		"/accounts/a%2fresponses":     http.StatusServiceUnavailable,
	} {
		res, _ := posted(t, server, path, "")
		assert.Equal(t, status, res.StatusCode, path)
	}
	assert.Empty(t, got)
	state := proxy.State()
	assert.Equal(t, []string{"a", "b"}, state.Accounts)
	assert.Equal(t, uint64(3), state.Requests[kindOther])
	assert.JSONEq(t, `{"limitId":"codex","primary":{"usedPercent":10,"windowDurationMins":300,"resetsAt":0},
		"secondary":null,"credits":null}`, string(state.Limits["a"].Limits))
	assert.Contains(t, string(state.Limits["b"].Limits), `"usedPercent":20`)
	assert.Len(t, state.Limits, 2)
}
