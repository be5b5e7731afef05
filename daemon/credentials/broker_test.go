package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/nudge"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/broker"
)

// brokeredWorkers are workers that lend a token with their name.
type brokeredWorkers struct {
	mu       sync.Mutex
	away     map[string]bool // has no place
	deaf     map[string]bool // refuses connections
	lines    []string        // what they were asked
	reported []string
}

func (w *brokeredWorkers) SharesLogin(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.away[name]
}

func (w *brokeredWorkers) Connect(name, line string) (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf[name] {
		return nil, errors.New("nobody listens")
	}
	w.lines = append(w.lines, name+" "+strings.TrimSpace(line))
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	far := os.NewFile(uintptr(fds[0]), "worker")
	defer far.Close()
	if err := broker.Answer(far, broker.Login{AccessToken: "token of " + name, AccountID: name}, nil); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[1]), "connection"), nil
}

func (w *brokeredWorkers) Reported(name string, limits json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = append(w.reported, name+string(limits))
}

// brokerBed is a store with accounts a, b and c, and their broker.
type brokerBed struct {
	*Broker
	t            *testing.T
	accountStore *accounts.Store
	pool         *brokeredWorkers
	loans        map[string][]string
}

func (b *brokerBed) lent(user string) ([]string, bool) {
	accounts, on := b.loans[user]
	return accounts, on
}

func newLendingBed(t *testing.T, rotation accounts.Rotation) *brokerBed {
	b := &brokerBed{t: t, pool: &brokeredWorkers{away: map[string]bool{}, deaf: map[string]bool{}}}
	changed := nudge.New()
	policy := accounts.Policy{Rotation: rotation, RotateAt: 0.05, Order: []string{"a", "b", "c"}}
	b.accountStore = accounts.NewStore(policy, policy.Order, changed.Touch)
	b.Broker = New(b.accountStore, b.pool, units.NewManager(), b.lent, changed, slog.New(slog.DiscardHandler))
	for _, name := range policy.Order {
		b.login(name, "chatgpt")
		b.accountStore.Read(name, name, quotaOf(0.1, time.Now()))
	}
	return b
}

func (b *brokerBed) login(name, kind string) {
	b.accountStore.Identify(name, accounts.Login{Type: kind, Required: true, At: time.Now()})
}

// ask returns the account and why it is another one, or the code of the error. It closes the connection to the worker.
func (b *brokerBed) ask(ask broker.Ask) (account, why string) {
	b.t.Helper()
	assignment, err := b.assign(b.t.Context(), "build", ask)
	if err != nil {
		return string(broker.CodeOf(err)), ""
	}
	if assignment.Worker != nil {
		require.NoError(b.t, assignment.Worker.Close())
	}
	return assignment.Account, assignment.Why
}

func (b *brokerBed) want(account, why string, ask broker.Ask) {
	b.t.Helper()
	gotAccount, gotWhy := b.ask(ask)
	assert.Equal(b.t, account, gotAccount)
	assert.Equal(b.t, why, gotWhy)
}

func quotaOf(used float64, at time.Time) accounts.Quota {
	return accounts.Quota{Windows: []accounts.Window{accounts.NewWindow(300, used, time.Time{})}, At: at}
}

func limited(account string) broker.Ask {
	return broker.Ask{Hold: account, Refused: broker.UsageLimit, ResetsAt: time.Now().Add(time.Hour).Unix(), Turn: true}
}

// A limit in a turn leads to the next account, at most once a minute, and the account that was refused is out for all.
func TestBrokerAtALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Ordered)
		b.want("a", "", broker.Ask{})
		b.want("b", "exhausted", limited("a"))
		v, _ := b.accountStore.View("a", time.Now())
		assert.Equal(t, accounts.Exhausted, v.State)
		_, err := b.assign(t.Context(), "build", limited("b"))
		var held *broker.Error
		require.ErrorAs(t, err, &held)
		assert.Equal(t, broker.Held, held.Code)
		<-time.After(time.Until(held.RetryAt))
		b.want("c", "exhausted", limited("b"))
		<-time.After(time.Minute)
		_, err = b.assign(t.Context(), "build", limited("c"))
		require.ErrorAs(t, err, &held)
		assert.Equal(t, broker.QuotaExhausted, held.Code)
		assert.False(t, held.RetryAt.IsZero())
		b.want("quota_exhausted", "", broker.Ask{Hold: "c", Have: true})
		assert.Equal(t, 1.0, testutil.ToFloat64(b.metrics.switches.WithLabelValues("a", "exhausted")))
		assert.Equal(t, 1.0, testutil.ToFloat64(b.metrics.loans.WithLabelValues("c")))
	})
}

// The pause outlives the process; so does the account, which the remote names.
func TestBrokerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Ordered)
		b.want("a", "", broker.Ask{})
		b.want("b", "exhausted", limited("a"))
		saved := b.accountStore.Save()
		b = newLendingBed(t, accounts.Ordered)
		b.accountStore.Restore(saved, time.Now())
		b.want("b", "", broker.Ask{Hold: "b", Have: true})
		b.want("held", "", limited("b"))
	})
}

// What a remote keeps needs no worker, and starts none.
func TestBrokerKeepsAccounts(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", broker.Ask{Hold: "a", Have: true})
	assert.Empty(t, b.pool.lines)
	b.pool.away["a"] = true
	b.want("a", "", broker.Ask{Hold: "a", Have: true})
	b.want("b", "unavailable", broker.Ask{Hold: "a"})
	assert.Equal(t, []string{"b codex-proxy login"}, b.pool.lines)
}

// A refused token is refreshed by its worker, and is no reason for another account.
func TestBrokerOfARefusedToken(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	digest := broker.Digest("x")
	b.want("a", "", broker.Ask{Hold: "a", Refused: broker.Unauthorized, Token: digest, Turn: true})
	assert.Equal(t, []string{"a codex-proxy login " + digest}, b.pool.lines)
	v, _ := b.accountStore.View("a", time.Now())
	assert.False(t, v.Quota.DoubtedAt.IsZero(), "it is read soon")
}

func TestBrokerOff(t *testing.T) {
	b := newLendingBed(t, accounts.Off)
	b.login("a", "apiKey")
	b.want("b", "", broker.Ask{})
	b.accountStore.Read("b", "b", quotaOf(0.99, time.Now()))
	b.want("b", "", broker.Ask{Hold: "b", Have: true})
	_, err := b.assign(t.Context(), "build", limited("b"))
	require.ErrorContains(t, err, `rotation = "off"`)
	assert.Equal(t, broker.QuotaExhausted, broker.CodeOf(err))
	b.want("b", "", broker.Ask{Hold: "b", Have: true}) // the quota decides nothing
	require.NoError(t, b.accountStore.Pause("b", true))
	b.want("c", "paused", broker.Ask{Hold: "b", Have: true})
}

// Without a rotation, too, no account that is known to be exhausted is lent for a turn that waits for quota, also by
// the next process. A reading ends it, before its reset or after it.
func TestBrokerOfAWaitingTurnOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Off)
		b.want("a", "", broker.Ask{})
		b.ask(limited("a"))
		waits := broker.Ask{Hold: "a", Have: true, Waits: true}
		for range 2 {
			_, err := b.assign(t.Context(), "build", waits)
			var refused *broker.Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, broker.QuotaExhausted, refused.Code)
			assert.Equal(t, time.Hour, time.Until(refused.RetryAt))
			assert.Contains(t, refused.Message, `rotation = "off"`)
			b.want("quota_exhausted", "", broker.Ask{Hold: "a", Waits: true})
			b.want("a", "", broker.Ask{Hold: "a", Have: true, Turn: true}) // of a person
			saved := b.accountStore.Save()
			b = newLendingBed(t, accounts.Off)
			b.accountStore.Restore(saved, time.Now())
		}
		<-time.After(2 * time.Hour)
		b.want("quota_exhausted", "", waits)
		b.accountStore.Read("a", "a", quotaOf(0.1, time.Now()))
		b.want("a", "", waits)
	})
}

// A turn that waits goes on with the account that takes the place of a paused one, if that has quota.
func TestBrokerOfAWaitingTurnElsewhere(t *testing.T) {
	b := newLendingBed(t, accounts.Off)
	b.want("b", "", broker.Ask{Hold: "b"})
	b.ask(limited("b"))
	b.accountStore.Refuse("a", time.Time{}, time.Now())
	waits := broker.Ask{Hold: "b", Have: true, Waits: true}
	require.NoError(t, b.accountStore.Pause("b", true))
	b.want("quota_exhausted", "", waits)
	require.NoError(t, b.accountStore.Pause("a", true))
	b.want("c", "paused", waits)
}

func TestBrokerWithoutAccounts(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("no_account", "", broker.Ask{Accounts: []string{"z"}})
	b.want("c", "", broker.Ask{Accounts: []string{"c"}})
	b.want("c", "", broker.Ask{}) // it was the last one
	b.pool.deaf["c"] = true
	b.want("a", "", broker.Ask{})
	b.pool.deaf["a"], b.pool.away["b"] = true, true
	b.want("unavailable", "", broker.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		b.accountStore.Invalidate(name, time.Now())
	}
	b.want("login_invalid", "", broker.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, b.accountStore.Pause(name, true))
	}
	b.want("paused", "", broker.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		b.login(name, "apiKey")
	}
	b.want("no_account", "", broker.Ask{})
}

// An account that has sent no login is no rotation.
func TestBrokerAfterNoLogin(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", broker.Ask{})
	b.want("b", "exhausted", limited("a"))
	again := limited("a")
	again.Avoid = []string{"b"}
	b.want("c", "exhausted", again)
}

// A remote cannot have the account of another one refused.
func TestBrokerOfOthers(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", broker.Ask{})
	b.ask(limited("b"))
	v, _ := b.accountStore.View("b", time.Now())
	assert.Equal(t, accounts.Available, v.State)
}

func TestBrokerPeer(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	for unit, remote := range map[string]string{
		"codex-remote@build.service": "build", "codex-worker@build.service": "", "codex-remote@a.b.service": "",
		"codex-remote@build.socket": "", "x-codex-remote@build.service": "", "": "",
	} {
		b.main = func(context.Context, uint32) (units.MainProcess, error) {
			if unit == "" {
				return units.MainProcess{}, units.ErrNotMain
			}
			return units.MainProcess{Unit: unit, Run: "r"}, nil
		}
		peer, err := b.peer(t.Context(), 1)
		if remote == "" {
			assert.Equal(t, broker.NotARemote, broker.CodeOf(err), unit)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, broker.Peer{Remote: remote, Run: "r"}, peer)
	}
	b.main = func(context.Context, uint32) (units.MainProcess, error) { return units.MainProcess{}, io.EOF }
	_, err := b.peer(t.Context(), 1)
	require.ErrorIs(t, err, io.EOF)
	assert.Empty(t, broker.CodeOf(err), "it may ask again")
}

// Over the socket: a remote is told of a switch, a pause and a low account between its turns, and of nothing else.
func TestBrokerNotifies(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.main = func(context.Context, uint32) (units.MainProcess, error) {
		return units.MainProcess{Unit: units.Remote("build"), Run: "r"}, nil
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { assert.NoError(t, b.Serve(ctx, l)) })
	c := broker.NewClient(path)
	work.Go(func() { c.Run(ctx) })
	lease := func(ask broker.Ask) broker.Grant {
		t.Helper()
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		g, err := c.Acquire(bounded, ask)
		require.NoError(t, err)
		return g
	}
	told := func() {
		t.Helper()
		select {
		case <-c.Changed():
		case <-time.After(time.Minute):
			t.Fatal("not told")
		}
	}
	g := lease(broker.Ask{})
	assert.Equal(t, "a", g.Account)
	assert.Equal(t, "token of a", g.Login.AccessToken)
	c.ReportLimits("a", json.RawMessage(`{"x":1}`))
	assert.True(t, lease(broker.Ask{Hold: "a", Have: true}).Kept)
	b.pool.mu.Lock()
	assert.Equal(t, []string{`a{"x":1}`}, b.pool.reported)
	b.pool.mu.Unlock()
	count, err := testutil.GatherAndCount(gatherer(t, b.Broker), "codex_account_remotes")
	require.NoError(t, err)
	assert.Equal(t, 3, count)

	require.NoError(t, b.accountStore.Switch("c"))
	told()
	g = lease(broker.Ask{Hold: "a", Have: true})
	assert.Equal(t, "c", g.Account)
	assert.Equal(t, "switched", g.Why)
	require.NoError(t, b.accountStore.Pause("b", true)) // it is not for this remote
	b.server.Tell(b.would)
	select {
	case <-c.Changed():
		t.Error("told of another account")
	default:
	}
}

func gatherer(t *testing.T, c prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	return r
}

// A user's own codex gets the accounts that root has lent to it, whatever it asks for, and none after the end of the
// loan.
func TestBrokerOfAUser(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	own := func(ask broker.Ask) (string, error) {
		got, err := b.assign(t.Context(), "codex-user@alice", ask)
		if got.Worker != nil {
			require.NoError(t, got.Worker.Close())
		}
		return got.Account, err
	}
	_, err := own(broker.Ask{Accounts: []string{"a"}})
	require.ErrorContains(t, err, "root can lend some by codex-proxy here accounts")
	assert.Equal(t, broker.NoAccount, broker.CodeOf(err))
	b.loans = map[string][]string{"alice": {"b"}}
	account, err := own(broker.Ask{Accounts: []string{"a"}})
	require.NoError(t, err)
	assert.Equal(t, "b", account)
	assert.False(t, b.would("codex-user@alice", broker.Ask{Hold: "b"}))
	_, err = own(broker.Ask{Hold: "a", Refused: broker.UsageLimit, ResetsAt: time.Now().Add(time.Hour).Unix()})
	require.NoError(t, err)
	v, _ := b.store.View("a", time.Now())
	assert.NotEqual(t, accounts.Exhausted, v.State, "it says nothing of an account that is not lent to it")
	b.loans["alice"] = nil // all
	account, err = own(broker.Ask{})
	require.NoError(t, err)
	assert.Equal(t, "b", account, "it stays")
	delete(b.loans, "alice")
	assert.True(t, b.would("codex-user@alice", broker.Ask{Hold: "b"}), "it learns of the end")
}
