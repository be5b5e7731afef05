package modelproxy

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
)

// fakeBroker is a service that lends the accounts in their order, each until it is refused.
type fakeBroker struct {
	mu    sync.Mutex
	names []string
	asks  []broker.Ask
	reads []string
}

func (b *fakeBroker) Acquire(_ context.Context, ask broker.Ask) (broker.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks = append(b.asks, ask)
	if ask.Refused == broker.UsageLimit {
		b.names = b.names[1:]
	}
	if len(b.names) == 0 {
		return broker.Grant{}, &broker.Error{Code: broker.QuotaExhausted, Message: "none", RetryAt: time.Unix(9e9, 0)}
	}
	name := b.names[0]
	return broker.Grant{Account: name, Login: broker.Login{AccessToken: "token-" + name, AccountID: "id-" + name}}, nil
}

func (b *fakeBroker) ReportLimits(account string, limits json.RawMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads = append(b.reads, account+string(limits))
}

func (b *fakeBroker) Changed() <-chan struct{} { return nil }

// asked are the questions so far.
func (b *fakeBroker) asked() []broker.Ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asks)
}

// startProxy starts a model proxy of accounts for a service that handle plays.
func startProxy(t *testing.T, handle http.HandlerFunc, names ...string) (b *fakeBroker, url, token string) {
	t.Helper()
	service := httptest.NewServer(handle)
	t.Cleanup(service.Close)
	b = &fakeBroker{names: names}
	l, err := ForAccounts(NewTokenSource(b, nil, "", slog.New(slog.DiscardHandler)), service.URL, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return b, start(t, l), "x.y." + l.Token
}

func textOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

// Requests to the model go out with the login of the account; nothing else of the account is reached.
func TestAllowed(t *testing.T) {
	_, url, token := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer token-a", r.Header.Get("Authorization"))
		assert.Equal(t, "id-a", r.Header.Get("ChatGPT-Account-ID"))
		_, _ = io.WriteString(w, r.URL.Path)
	}, "a")
	assert.Equal(t, "/backend-api/codex/responses", textOf(t, ask(t, url+"/backend-api/codex/responses", token, "{}")))
	for _, path := range []string{"/backend-api/wham/settings/user", "/backend-api/ps/mcp", "/backend-api/codex/models", "/",
		"/backend-api/codex/responses/../../wham/tasks", "/codex/responses"} {
		assert.Equal(t, http.StatusNotFound, ask(t, url+path, token, "{}").StatusCode, path)
	}
	assert.Equal(t, http.StatusUnauthorized, ask(t, url+"/backend-api/codex/responses", "x.y.z", "{}").StatusCode)
}

const limit = `{"error":{"type":"usage_limit_reached","resets_at":4102444800}}`

// A refused request goes out with the next account; when there is none, codex gets what an account would answer.
func TestNextAccount(t *testing.T) {
	var bodies []string
	handle := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Authorization")+" "+string(body))
		w.Header().Set("X-Codex-Primary-Used-Percent", "99.6")
		if r.Header.Get("Authorization") != "Bearer token-c" {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, limit)
		}
	}
	b, url, token := startProxy(t, handle, "a", "b", "c")
	assert.Equal(t, http.StatusOK, ask(t, url+"/backend-api/codex/responses", token, "body").StatusCode)
	assert.Equal(t, []string{"Bearer token-a body", "Bearer token-b body", "Bearer token-c body"}, bodies)
	assert.EqualValues(t, 4102444800, b.asked()[1].ResetsAt)
	assert.True(t, strings.HasPrefix(b.reads[0], `a{"limitId":"codex","primary":{"usedPercent":100,`), b.reads[0])

	_, url, token = startProxy(t, handle, "a", "b")
	res := ask(t, url+"/backend-api/codex/responses", token, "body")
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.Contains(t, textOf(t, res), `"resets_at":9000000000`)
}

// A refusal behind an event of codex's own costs no answer: the next account serves.
func TestRefusedBehindAnEventOfCodex(t *testing.T) {
	_, url, token := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"codex.response.metadata\"}\n\n")
		if r.Header.Get("Authorization") == "Bearer token-a" {
			_, _ = io.WriteString(w, "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"usage_limit_reached\"}}}\n\n")
			return
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"response.completed\"}\n\n")
	}, "a", "b")
	assert.Contains(t, textOf(t, ask(t, url+"/backend-api/codex/responses", token, "{}")), "response.completed")
}

// What an account refuses for one model is codex's to report: a tool that asks for models takes no account from
// anybody.
func TestRefusedModels(t *testing.T) {
	const inStream = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"usage_not_included\"}}}\n\n"
	for name, handle := range map[string]http.HandlerFunc{
		"plan": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"type":"usage_not_included"}}`)
		},
		"plan, in the stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"type\":\"response.created\"}\n\n"+inStream)
		},
		"plan, after output": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"type\":\"response.output_text.delta\"}\n\n"+inStream)
		},
		"limit": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Codex-Active-Limit", "codex_other")
			w.Header().Set("X-Codex-Other-Limit-Name", "gpt-x")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, limit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, url, token := startProxy(t, handle, "a", "b")
			text := textOf(t, ask(t, url+"/backend-api/codex/responses", token, "{}"))
			assert.Regexp(t, `usage_not_included|usage_limit_reached`, text)
			assert.Equal(t, []broker.Refusal{""}, refusals(b.asked()))
		})
	}
	b, url, token := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Codex-Active-Limit", "codex")
		w.Header().Set("X-Codex-Limit-Name", "codex")
		if r.Header.Get("Authorization") == "Bearer token-a" {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, limit)
		}
	}, "a", "b")
	assert.Equal(t, http.StatusOK, ask(t, url+"/backend-api/codex/responses", token, "{}").StatusCode)
	assert.Equal(t, []broker.Refusal{"", broker.UsageLimit}, refusals(b.asked()), "the account's own limit")
}

func refusals(asks []broker.Ask) (kinds []broker.Refusal) {
	for _, ask := range asks {
		kinds = append(kinds, ask.Refused)
	}
	return kinds
}

// Reasoning that another account has encrypted is left out, again in later requests, and new reasoning is not.
func TestForeignReasoning(t *testing.T) {
	var inputs []string
	_, url, token := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		inputs = append(inputs, string(body))
		if strings.Contains(string(body), "of-another") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":"invalid_encrypted_content"}}`)
		}
	}, "a")
	const old = `{"type":"reasoning","encrypted_content":"of-another"}`
	assert.Equal(t, http.StatusOK, ask(t, url+"/backend-api/codex/responses", token, `{"input":[`+old+`,{"type":"message"}]}`).StatusCode)
	assert.Equal(t, http.StatusOK, ask(t, url+"/backend-api/codex/responses", token,
		`{"input":[`+old+`,{"type":"reasoning","encrypted_content":"own"}]}`).StatusCode)
	require.Len(t, inputs, 3)
	assert.JSONEq(t, `{"input":[{"type":"message"}]}`, inputs[1])
	assert.JSONEq(t, `{"input":[{"type":"reasoning","encrypted_content":"own"}]}`, inputs[2])
}

// The end of the quota after output cuts the answer, and codex repeats the request; without another account the end is
// codex's to report.
func TestLimitAfterOutput(t *testing.T) {
	handle := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"response.created\"}\n\n"+
			"data: {\"type\":\"response.output_text.delta\"}\n\n"+
			"data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"usage_limit_reached\"}}}\n\n")
	}
	b, url, token := startProxy(t, handle, "a", "b")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/backend-api/codex/responses", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req) // the cut may come before the first byte
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	require.ErrorContains(t, err, "EOF")
	assert.Len(t, b.asked(), 2)
	assert.Contains(t, textOf(t, ask(t, url+"/backend-api/codex/responses", token, "{}")), "response.failed")
}

// Bodies are kept within a bound. What is beyond it passes, and is not repeated here.
func TestKeptBodies(t *testing.T) {
	var b bodies
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("12345"))
	first, err := b.keep(r)
	require.NoError(t, err)
	assert.Equal(t, "12345", string(first.text))
	b.bytes.Add(maxKept - 9)
	second, err := b.keep(httptest.NewRequest(http.MethodPost, "/", strings.NewReader("12345")))
	require.NoError(t, err)
	assert.False(t, second.kept)
	first.release()
	second.release()
	assert.EqualValues(t, maxKept-9, b.bytes.Load())
}

// deaf is a service that answers nothing but one error.
type deaf struct {
	*fakeBroker
	code broker.Code
}

func (d *deaf) Acquire(ctx context.Context, ask broker.Ask) (broker.Grant, error) {
	if d.code != "" {
		return broker.Grant{}, &broker.Error{Code: d.code, Message: "no"}
	}
	return d.fakeBroker.Acquire(ctx, ask)
}

// Between turns an account that is paused serves no longer; that the service is gone changes nothing.
func TestSettle(t *testing.T) {
	for code, denied := range map[broker.Code]bool{broker.Unavailable: false, broker.Held: false, broker.Paused: true,
		broker.QuotaExhausted: true, broker.NoAccount: true} {
		d := &deaf{fakeBroker: &fakeBroker{names: []string{"a"}}}
		b := NewTokenSource(d, nil, "", slog.New(slog.DiscardHandler))
		b.Open(t.Context())
		_, err := b.acquire(t.Context())
		require.NoError(t, err)
		d.code = code
		why, _ := b.Settle(t.Context(), false)
		assert.Equal(t, denied, why != "", string(code))
		d.code = ""
		_, err = b.acquire(t.Context())
		require.NoError(t, err)
		why, _ = b.Denied()
		assert.Empty(t, why)
	}
}

// starting is a service whose next account takes a while to send its login.
type starting struct {
	*fakeBroker
	ready chan struct{} // closed when it has
}

func (s *starting) Acquire(ctx context.Context, ask broker.Ask) (broker.Grant, error) {
	if ask.Refused != "" {
		<-s.ready
	}
	return s.fakeBroker.Acquire(ctx, ask)
}

// While a token is replaced after a refusal, no other request goes out with it.
func TestRefusedTokenIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &starting{&fakeBroker{names: []string{"a", "b"}}, make(chan struct{})}
		b := NewTokenSource(s, nil, "", slog.New(slog.DiscardHandler))
		first, err := b.acquire(t.Context())
		require.NoError(t, err)
		go func() { _, _ = b.replace(t.Context(), first, refusal{kind: broker.UsageLimit}) }()
		synctest.Wait()
		second := make(chan token, 1)
		go func() {
			got, err := b.acquire(t.Context())
			assert.NoError(t, err)
			second <- got
		}()
		synctest.Wait()
		assert.Empty(t, second)
		close(s.ready)
		assert.Equal(t, "b", (<-second).account)
	})
}

// single is a service whose rotation is off: it lends one account, except for a turn that waits for quota.
type single struct {
	*fakeBroker
	used bool // the account has no quota
}

func (s *single) Acquire(_ context.Context, ask broker.Ask) (broker.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = append(s.asks, ask)
	s.used = s.used || ask.Refused == broker.UsageLimit
	if s.used && (ask.Waits || ask.Refused == broker.UsageLimit) {
		return broker.Grant{}, &broker.Error{Code: broker.QuotaExhausted, Message: "none", RetryAt: resetOf(ask)}
	}
	if ask.Have {
		return broker.Grant{Account: "a", Kept: true}, nil
	}
	return broker.Grant{Account: "a", Login: broker.Login{AccessToken: "token-a", AccountID: "id-a"}}, nil
}

// resetOf is the reset that the ask names.
func resetOf(ask broker.Ask) time.Time {
	if ask.ResetsAt == 0 {
		return time.Time{}
	}
	return time.Unix(ask.ResetsAt, 0)
}

// Without a rotation a turn that waits for quota goes on waiting whatever the account is lent for meanwhile: at the
// start, for a message of a person, or by a service that does not answer.
func TestSettleForATurnThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &single{fakeBroker: &fakeBroker{}, used: true}
		b := NewTokenSource(s, nil, "a", slog.New(slog.DiscardHandler))
		waits := func() bool {
			why, _ := b.Settle(t.Context(), true)
			return why != ""
		}
		b.Open(t.Context())
		assert.True(t, waits(), "after a restart")
		asked := len(s.asked())
		assert.True(t, waits())
		assert.Len(t, s.asked(), asked, "a question each 5 s is enough")
		for range 3 {
			<-time.After(again)
			assert.True(t, waits())
			why, _ := b.Denied()
			assert.Equal(t, "none", why)
		}
		_, err := b.acquire(t.Context())
		require.NoError(t, err, "a person may try")
		assert.True(t, waits(), "a person has tried")
		<-time.After(again)
		s.used = false
		assert.False(t, waits())

		d := &deaf{fakeBroker: &fakeBroker{names: []string{"a"}}}
		b = NewTokenSource(d, nil, "", slog.New(slog.DiscardHandler))
		b.Open(t.Context())
		d.code = broker.Unavailable
		assert.True(t, waits(), "nobody knows")
		_, err = b.acquire(t.Context())
		require.NoError(t, err, "that the service is gone changes nothing for a person")
		d.code = ""
		assert.False(t, waits())
	})
}

// A request whose account has a reset soon waits for it, and does not go out before a reading shows quota.
func TestResetWithinARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &single{fakeBroker: &fakeBroker{}}
		b := NewTokenSource(s, nil, "", slog.New(slog.DiscardHandler))
		b.Open(t.Context())
		with, err := b.acquire(t.Context())
		require.NoError(t, err)
		const soon = 30 * time.Second
		began := time.Now()
		limit := refusal{kind: broker.UsageLimit, resetsAt: began.Add(soon).Unix()}
		_, err = b.replace(t.Context(), with, limit)
		assert.Equal(t, broker.QuotaExhausted, broker.CodeOf(err))
		assert.Equal(t, soon, time.Since(began))
		work := make(chan error)
		go func() { _, err := b.replace(t.Context(), with, limit); work <- err }()
		synctest.Wait()
		s.mu.Lock()
		s.used = false
		s.mu.Unlock()
		assert.NoError(t, <-work)
	})
}
