package modelproxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
)

// openAI plays both addresses of OpenAI. It accepts one token.
type openAI struct {
	*httptest.Server
	accepts  atomic.Pointer[string]
	requests atomic.Int64
	last     atomic.Pointer[http.Request]
}

func startOpenAI(t *testing.T) *openAI {
	t.Helper()
	o := &openAI{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.requests.Add(1)
		o.last.Store(r)
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer "+*o.accepts.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Codex-Primary-Used-Percent", "42")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = w.Write(body)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *openAI) accept(token string) { o.accepts.Store(&token) }

// loginProxy is a model proxy for a login, with OpenAI at o.
func loginProxy(t *testing.T, o *openAI, source LoginSource) *httptest.Server {
	t.Helper()
	at := OpenAI{ChatGPT: o.URL + "/backend-api/codex", API: o.URL + "/v1"}
	proxy, err := ForLogin(source, nil, at, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server
}

func posted(t *testing.T, server *httptest.Server, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer of-a-tool")
	r.Header.Set("Cookie", "c=d")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

func granted(token string) broker.Login {
	return broker.Login{AccessToken: token, AccountID: "account", ExpiresAt: time.Now().Add(time.Hour).Unix()}
}

// Each request gets the token and the account; the limits of the answer go on. What a tool sends as a login does not.
func TestAddsTheLogin(t *testing.T) {
	o := startOpenAI(t)
	o.accept("token")
	server := loginProxy(t, o, func(context.Context, string) (broker.Login, error) { return granted("token"), nil })
	res, text := posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "hello", text)
	assert.Equal(t, "42", res.Header.Get("X-Codex-Primary-Used-Percent"))
	assert.Empty(t, res.Header.Get("Set-Cookie"))
	got := o.last.Load()
	assert.Equal(t, "/backend-api/codex/responses", got.URL.Path)
	assert.Equal(t, "account", got.Header.Get("ChatGPT-Account-ID"))
	assert.Empty(t, got.Header.Get("Cookie"))

	for _, path := range []string{"/wham/usage", "/responses/../../wham/usage", "/backend-api/codex/responses", "/"} {
		res, _ = posted(t, server, path, "")
		assert.Equal(t, http.StatusNotFound, res.StatusCode, path)
	}
	assert.Equal(t, int64(1), o.requests.Load())
}

// An API key has another address, and no account.
func TestAddsTheAPIKey(t *testing.T) {
	o := startOpenAI(t)
	o.accept("sk-x")
	server := loginProxy(t, o, func(context.Context, string) (broker.Login, error) {
		return broker.Login{AccessToken: "sk-x"}, nil
	})
	res, _ := posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "/v1/responses", o.last.Load().URL.Path)
	assert.NotContains(t, o.last.Load().Header, "Chatgpt-Account-Id")
}

// All requests that are refused wait for one other token, and go out again with their bodies.
func TestRenewsOnce(t *testing.T) {
	o := startOpenAI(t)
	o.accept("new")
	var asked, renewed atomic.Int64
	server := loginProxy(t, o, func(_ context.Context, refused string) (broker.Login, error) {
		if asked.Add(1); refused == "old" {
			renewed.Add(1)
			return granted("new"), nil
		}
		return granted("old"), nil
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			res, text := posted(t, server, "/responses", "hello")
			assert.Equal(t, http.StatusOK, res.StatusCode)
			assert.Equal(t, "hello", text)
		})
	}
	all.Wait()
	assert.Equal(t, int64(1), renewed.Load())
	assert.Equal(t, int64(2), asked.Load())
}

// A token is not sent in its last minute.
func TestRenewsBeforeTheEnd(t *testing.T) {
	o := startOpenAI(t)
	o.accept("new")
	asked := 0
	server := loginProxy(t, o, func(context.Context, string) (broker.Login, error) {
		if asked++; asked == 1 {
			soon := granted("new")
			soon.ExpiresAt = time.Now().Add(spare / 2).Unix()
			return soon, nil
		}
		return granted("new"), nil
	})
	for range 3 {
		res, _ := posted(t, server, "/responses", "")
		assert.Equal(t, http.StatusOK, res.StatusCode)
	}
	assert.Equal(t, 2, asked)
}

// A login that does not hold is the answer of OpenAI, or 401 with the reason; a unit that is gone is asked again.
func TestNoLogin(t *testing.T) {
	o := startOpenAI(t)
	o.accept("other")
	invalid := &broker.Error{Code: broker.LoginInvalid, Message: "its login is not accepted"}
	server := loginProxy(t, o, func(_ context.Context, refused string) (broker.Login, error) {
		if refused != "" {
			return broker.Login{}, invalid
		}
		return granted("token"), nil
	})
	res, _ := posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.Equal(t, int64(1), o.requests.Load())

	server = loginProxy(t, o, func(context.Context, string) (broker.Login, error) { return broker.Login{}, invalid })
	res, text := posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.Contains(t, text, "its login is not accepted")

	tries := 0
	server = loginProxy(t, o, func(context.Context, string) (broker.Login, error) {
		if tries++; tries == 1 {
			return broker.Login{}, errors.New("cut")
		}
		return granted("other"), nil
	})
	res, _ = posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

// A body is kept until OpenAI answers, and a request that was not kept leaves the account its good login.
func TestNoRoomForABody(t *testing.T) {
	o := startOpenAI(t)
	o.accept("new")
	server := loginProxy(t, o, func(_ context.Context, refused string) (broker.Login, error) {
		if refused == "" {
			return granted("old"), nil
		}
		return granted("new"), nil
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/responses",
		io.MultiReader(strings.NewReader("hello"))) // of no known size: it is not kept
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Contains(t, string(text), "send it again")
	res, _ = posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

// An answer that goes on keeps no body: the next request has its room.
func TestAnAnswerKeepsNoBody(t *testing.T) {
	hold := make(chan struct{})
	var first atomic.Bool
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if first.CompareAndSwap(false, true) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-hold
			return
		}
		if r.Header.Get("Authorization") == "Bearer old" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(o.Close)
	t.Cleanup(func() { close(hold) })
	server := loginProxy(t, &openAI{Server: o}, func(_ context.Context, refused string) (broker.Login, error) {
		if refused == "" {
			return granted("old"), nil
		}
		return granted("new"), nil
	})
	large := strings.Repeat("x", maxKept-1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/responses", strings.NewReader(large))
	require.NoError(t, err)
	held, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer held.Body.Close()
	res, _ := posted(t, server, "/responses", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

// A fault of the login's unit is passed on as one that passes, with its words.
func TestAFaultOfTheLoginsUnit(t *testing.T) {
	w := httptest.NewRecorder()
	failures{slog.New(slog.DiscardHandler)}.answer(w, httptest.NewRequest(http.MethodPost, "/responses", nil), &loginError{
		&broker.Error{Code: broker.Unavailable, Message: "no codex: install it"}})
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, w.Body.String(), "no codex: install it")
}
