package workers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/readings"
)

// accountServer is a fake worker with a ChatGPT account.
type accountServer struct {
	appservertest.Server
	path string

	mu      sync.Mutex
	peer    *appservertest.Peer // the connection of the last call
	login   string              // the answer to account/read
	refresh string              // the login after a refresh; empty: the same
	limits  func(n int) string  // the answer to the n-th reading
	held    chan struct{}       // readings wait for it; nil: they do not
	read    int
	begun   chan struct{} // has a token for each reading
}

const (
	login = `{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},"requiresOpenaiAuth":true,
		"userId":"u","workspaceRouting":{"chatgptAccountId":"x"}}`
	noLogin      = `{"account":null,"requiresOpenaiAuth":true}`
	apiKey       = `{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}`
	refusedLogin = "failed to fetch codex rate limits: " +
		"GET https://chatgpt.com/backend-api/wham/usage failed: 401 Unauthorized; body={}"
	refusedTokens = "Your access token could not be refreshed because your refresh token was already used. " +
		"Please log out and sign in again."
)

// used is the answer to a reading.
func used(percent int) string {
	const answer = `{"rateLimits":{"limitId":"codex","primary":{"usedPercent":%d,"windowDurationMins":300}}}`
	return fmt.Sprintf(answer, percent)
}

func newAccountServer(t *testing.T, limits func(n int) string) *accountServer {
	s := &accountServer{login: login, limits: limits, begun: make(chan struct{}, 100)}
	s.Faults = map[string]appservertest.Fault{"account/read": s.readLogin, "account/rateLimits/read": s.readLimits}
	s.path = fake(t, &s.Server).path
	return s
}

// answers has the same answer for each reading.
func answers(text string) func(int) string { return func(int) string { return text } }

func (s *accountServer) readLogin(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer = p
	if !strings.HasPrefix(s.login, "{") {
		p.Refuse(id, -32603, s.login)
		return true
	}
	p.Reply(id, json.RawMessage(s.login))
	return true
}

func (s *accountServer) readLimits(ctx context.Context, p *appservertest.Peer, id json.RawMessage) bool {
	s.mu.Lock()
	s.read++
	text, held := s.limits(s.read), s.held
	s.mu.Unlock()
	s.begun <- struct{}{}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	switch {
	case strings.HasPrefix(text, "{"):
		p.Reply(id, json.RawMessage(text))
	case text == refusedLogin && s.refresh != "":
		s.mu.Lock()
		s.login = s.refresh // as codex has it after it was asked to refresh the tokens
		s.mu.Unlock()
		p.Refuse(id, -32603, text)
	default:
		p.Refuse(id, -32603, text)
	}
	return true
}

func (s *accountServer) readings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

func (s *accountServer) notify(window string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.Notify("account/rateLimits/updated", json.RawMessage(`{"rateLimits":{"limitId":"codex",`+window+`}}`))
}

// running is a pool with the workers a, b, … on these fakes.
func runningAccounts(t *testing.T, servers ...*accountServer) *rig {
	t.Helper()
	var all []named
	for i, s := range servers {
		all = append(all, named{string(rune('a' + i)), s.path})
	}
	r := newRig(t, nil, all...)
	assert.Empty(t, r.pool.Accounts(), "nothing is known before a connection")
	r.noBus()
	r.run(t)
	return r
}

// awaitAccounts waits until the accounts satisfy ok. Their change is no
// change of a worker's state, so no event reports it.
func awaitAccounts(t *testing.T, r *rig, ok func([]accounts.Account) bool) []accounts.Account {
	t.Helper()
	var got []accounts.Account
	require.Eventually(t, func() bool { got = r.pool.Accounts(); return ok(got) }, bound, 2*time.Millisecond)
	return got
}

func awaitStates(t *testing.T, r *rig, want ...accounts.State) []accounts.Account {
	t.Helper()
	return awaitAccounts(t, r, func(list []accounts.Account) bool {
		if len(list) != len(want) {
			return false
		}
		for i, a := range list {
			if a.State != want[i] {
				return false
			}
		}
		return true
	})
}

func TestAccountsAndTheirLimits(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	srv := newAccountServer(t, answers(fmt.Sprintf(
		`{"rateLimits":{"primary":{"usedPercent":7,"windowDurationMins":10079,"resetsAt":%d},`+
			`"secondary":{"usedPercent":42,"windowDurationMins":300,"resetsAt":%[1]d},`+
			`"credits":{"hasCredits":true,"unlimited":false,"balance":"3"}}}`, soon.Unix())))
	r := runningAccounts(t, srv)
	got := awaitStates(t, r, accounts.Available)[0]
	assert.WithinDuration(t, time.Now(), got.At, bound)
	assert.WithinDuration(t, time.Now(), got.LoginAt, bound)
	got.At, got.LoginAt = time.Time{}, time.Time{}
	assert.Equal(t, accounts.Account{
		Worker: "a", Login: "chatgpt", Required: true, Plan: "pro", Email: "a@example.com",
		Limits: []accounts.Limit{
			{Window: "5h", UsedRatio: 0.42, ResetsAt: soon.UTC()},
			{Window: "7d", UsedRatio: 0.07, ResetsAt: soon.UTC()},
		},
		State: accounts.Available, Left: 0.58, Source: accounts.Reading,
		Credits: &accounts.Credits{Has: true, Balance: "3"},
	}, got)

	srv.notify(`"secondary":{"usedPercent":43}`)
	ratios := func(want ...float64) func([]accounts.Account) bool {
		return func(list []accounts.Account) bool {
			if len(list) != 1 || len(list[0].Limits) != len(want) {
				return false
			}
			for i, l := range list[0].Limits {
				if l.UsedRatio != want[i] {
					return false
				}
			}
			return true
		}
	}
	got = awaitAccounts(t, r, ratios(0.43, 0.07))[0]
	assert.Equal(t, accounts.Update, got.Source)
	assert.Equal(t, soon.UTC(), got.Limits[0].ResetsAt, "an update omits what has not changed")
	srv.notify(`"limitId":"codex_other","primary":{"usedPercent":100,"windowDurationMins":300}`)
	srv.notify(`"primary":{"usedPercent":8}`)
	awaitAccounts(t, r, ratios(0.43, 0.08)) // the other limit is not the account's

	// A window that has ended is left out.
	past := time.Now().Add(-time.Second).Unix()
	srv.notify(fmt.Sprintf(`"secondary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":%d}`, past))
	got = awaitAccounts(t, r, ratios(0.08))[0]
	assert.Equal(t, accounts.Low, got.State, "it is not known to be free; there are credits")
}

// What is known of a worker stays when it ends.
func TestAccountsOfAStoppedWorker(t *testing.T) {
	srv := newAccountServer(t, answers(used(100)))
	r := runningAccounts(t, srv)
	before := awaitStates(t, r, accounts.Exhausted)
	r.lose(t, srv.Close)
	assert.Equal(t, before, r.pool.Accounts())
	require.Eventually(t, func() bool {
		return assert.ErrorIs(new(testing.T), r.pool.Refresh(t.Context(), "a"), readings.ErrNotConnected)
	}, bound, time.Millisecond)
}

// The end of a connection ends its reading, which is no failure of it: neither is it logged,
// nor is the next failure its repetition.
func TestStopDuringAReading(t *testing.T) {
	srv := newAccountServer(t, answers("no network"))
	srv.held = make(chan struct{})
	r := newRig(t, nil, named{"a", srv.path})
	r.run(t)
	r.report(running("a", "1", 0))
	<-srv.begun
	r.report(unit("a", "deactivating", "stop-sigterm", "1", 0))
	logged := func(text string) func() bool {
		return func() bool { return strings.Contains(r.log.String(), text) }
	}
	require.Eventually(t, logged("worker connection ended"), bound, time.Millisecond)
	assert.NotContains(t, r.log.String(), "level=WARN")
	close(srv.held)
	r.report(running("a", "2", 0))
	require.Eventually(t, logged("cannot read the account of a worker"), bound, time.Millisecond)
}

// Unreadable limits keep no worker from being ready, and the login is known.
func TestAccountWithoutLimits(t *testing.T) {
	r := runningAccounts(t, newAccountServer(t, answers("no network")))
	awaitAccounts(t, r, func(a []accounts.Account) bool { return len(a) == 1 && a[0].Email == "a@example.com" })
	assert.True(t, r.pool.Snapshot().Workers[0].Ready)
	logged := func() bool { return strings.Contains(r.log.String(), "cannot read the account of a worker") }
	require.Eventually(t, logged, bound, 2*time.Millisecond)
	awaitStates(t, r, accounts.Unknown)
	assert.ErrorContains(t, r.pool.Refresh(t.Context(), "a"), "no network")
	assert.Equal(t, 1, strings.Count(r.log.String(), "cannot read the account of a worker"), "once in a row")
	assert.Equal(t, 1.0, readingsOf(t, r, "a", "failed"), "the failure has just been")
}

func readingsOf(t *testing.T, r *rig, account, result string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.pool.Readings())
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "codex_account_readings_total" && l[0].GetValue() == account &&
				l[1].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	require.Fail(t, "no sample")
	return 0
}

// An API key has no limits: no reading is sent to the account's server.
func TestAccountOfAnAPIKey(t *testing.T) {
	srv := newAccountServer(t, answers("-32600"))
	srv.login = apiKey
	r := runningAccounts(t, srv)
	got := awaitStates(t, r, accounts.Available)[0]
	assert.Empty(t, got.Limits)
	assert.Zero(t, srv.readings())
	r.pool.AccountStore().Refuse("a", time.Time{}, time.Now())
	require.NoError(t, r.pool.Refresh(t.Context(), "a"))
	awaitStates(t, r, accounts.Exhausted)
	v, _ := r.pool.AccountStore().View("a", time.Now().Add(accounts.LimitlessPause))
	assert.Equal(t, accounts.Unknown, v.State)
}

func TestLoginInvalid(t *testing.T) {
	thenUsed := func(n int) string { return []string{refusedLogin, used(1)}[min(n, 2)-1] }
	for name, c := range map[string]struct {
		login, refresh string
		limits         func(int) string
		want           accounts.State
		readings       int
	}{
		"no login":               {login: noLogin, want: accounts.LoginInvalid},
		"an expired token":       {login, login, thenUsed, accounts.Available, 2},
		"refused for good":       {login, login, answers(refusedLogin), accounts.LoginInvalid, 2},
		"the refresh is refused": {login, noLogin, answers(refusedLogin), accounts.LoginInvalid, 1},
		"codex cannot refresh":   {login: refusedTokens, want: accounts.LoginInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newAccountServer(t, c.limits)
			srv.login, srv.refresh = c.login, c.refresh
			r := runningAccounts(t, srv)
			awaitStates(t, r, c.want)
			assert.Equal(t, c.readings, srv.readings())
			assert.NotContains(t, r.log.String(), "cannot read the account", "an event of its own reports the login")
		})
	}
}

// A new login ends it, also in the worker that runs.
func TestLoginValidAgain(t *testing.T) {
	srv := newAccountServer(t, answers(used(1)))
	srv.login = noLogin
	r := runningAccounts(t, srv)
	awaitStates(t, r, accounts.LoginInvalid)
	require.Error(t, r.pool.Refresh(t.Context(), "a")) // it may be the first one that has not quite ended
	refused := readingsOf(t, r, "a", "login_invalid")
	require.Error(t, r.pool.Refresh(t.Context(), "a"))
	srv.mu.Lock()
	srv.login = login
	srv.mu.Unlock()
	require.NoError(t, r.pool.Refresh(t.Context(), "a"))
	awaitStates(t, r, accounts.Available)
	assert.Equal(t, refused+1, readingsOf(t, r, "a", "login_invalid"))
}

func TestOneReadingInFlight(t *testing.T) {
	srv := newAccountServer(t, answers(used(50)))
	srv.held = make(chan struct{})
	r := runningAccounts(t, srv)
	<-srv.begun
	results := make(chan error)
	hasty, cancel := context.WithCancelCause(t.Context())
	gone := fmt.Errorf("a caller that gives up: %w", http.ErrAbortHandler)
	go func() { results <- r.pool.Refresh(hasty, "a") }()
	cancel(gone)
	require.ErrorIs(t, <-results, gone)
	for range 10 {
		go func() { results <- r.pool.Refresh(t.Context(), "a") }()
	}
	assert.Equal(t, 1, srv.readings())
	close(srv.held)
	for range 10 {
		require.NoError(t, <-results, "the reading went on for the others")
	}
	awaitStates(t, r, accounts.Available)
	assert.Equal(t, 1, srv.readings())
	assert.Equal(t, 1.0, readingsOf(t, r, "a", "ok"))
	_, err := r.pool.AccountStore().View("a", time.Now())
	assert.True(t, err)
	assert.ErrorIs(t, r.pool.Refresh(t.Context(), "nobody"), workers.ErrUnknown)
}

// Two workers of one account have one quota, and one of them reads it.
func TestReadingsOfASharedAccount(t *testing.T) {
	one, two := newAccountServer(t, answers(used(50))), newAccountServer(t, answers(used(50)))
	r := runningAccounts(t, one, two)
	got := awaitStates(t, r, accounts.Available, accounts.Available)
	assert.Equal(t, []string{"b"}, got[0].SharedWith)
	require.Eventually(t, func() bool { return r.pool.Refresh(t.Context(), "b") == nil }, bound, time.Millisecond)
	require.NoError(t, r.pool.Refresh(t.Context(), "a"))
	assert.LessOrEqual(t, one.readings()+two.readings(), 2, "each process is read at most once at its start")
	r.pool.AccountStore().Refuse("b", time.Time{}, time.Now())
	awaitStates(t, r, accounts.Exhausted, accounts.Exhausted)
}

// A refusal is followed by one reading, which ends it if there is quota.
func TestReadingAfterARefusal(t *testing.T) {
	t.Parallel()
	srv := newAccountServer(t, answers(used(50)))
	r := runningAccounts(t, srv)
	awaitStates(t, r, accounts.Available)
	for range 5 {
		r.pool.AccountStore().Refuse("a", time.Time{}, time.Now())
	}
	awaitStates(t, r, accounts.Exhausted)
	require.NoError(t, r.pool.Refresh(t.Context(), "a"))
	awaitStates(t, r, accounts.Exhausted) // that reading began before
	awaitStates(t, r, accounts.Available)
	assert.Equal(t, 2, srv.readings())
}
