package daemon

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

	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/logins"
)

// lenders are workers that lend a token with their name.
type lenders struct {
	mu       sync.Mutex
	away     map[string]bool // has no place
	deaf     map[string]bool // refuses connections
	lines    []string        // what they were asked
	reported []string
}

func (w *lenders) Lends(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.away[name]
}

func (w *lenders) Connect(name, line string) (*os.File, error) {
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
	if err := logins.Answer(far, logins.Login{AccessToken: "token of " + name, AccountID: name}, nil); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[1]), "connection"), nil
}

func (w *lenders) Reported(name string, limits json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = append(w.reported, name+string(limits))
}

// lendingBed is a book with accounts a, b and c, and their lender.
type lendingBed struct {
	*loans
	t    *testing.T
	book *accounts.Book
	pool *lenders
}

func newLendingBed(t *testing.T, rotation accounts.Rotation) *lendingBed {
	b := &lendingBed{t: t, pool: &lenders{away: map[string]bool{}, deaf: map[string]bool{}}}
	policy := accounts.Policy{Rotation: rotation, RotateAt: 0.05, Order: []string{"a", "b", "c"}}
	b.book = accounts.NewBook(policy, policy.Order, func() { b.touch() })
	b.loans = newLoans(b.book, b.pool, units.NewManager(), slog.New(slog.DiscardHandler))
	for _, name := range policy.Order {
		b.login(name, "chatgpt")
		b.book.Read(name, name, quotaOf(0.1, time.Now()))
	}
	return b
}

func (b *lendingBed) login(name, kind string) {
	b.book.Identify(name, accounts.Login{Type: kind, Required: true, At: time.Now()})
}

// ask returns the account and why it is another one, or the code of the error. It closes the connection to the worker.
func (b *lendingBed) ask(ask logins.Ask) (account, why string) {
	b.t.Helper()
	loan, err := b.lend(b.t.Context(), "build", ask)
	if err != nil {
		return string(logins.CodeOf(err)), ""
	}
	if loan.Worker != nil {
		require.NoError(b.t, loan.Worker.Close())
	}
	return loan.Account, loan.Why
}

func (b *lendingBed) want(account, why string, ask logins.Ask) {
	b.t.Helper()
	gotAccount, gotWhy := b.ask(ask)
	assert.Equal(b.t, account, gotAccount)
	assert.Equal(b.t, why, gotWhy)
}

func limited(account string) logins.Ask {
	return logins.Ask{Hold: account, Refused: logins.UsageLimit, ResetsAt: time.Now().Add(time.Hour).Unix(), Turn: true}
}

// A limit in a turn leads to the next account, at most once a minute, and the account that was refused is out for all.
func TestLoansAtALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Ordered)
		b.want("a", "", logins.Ask{})
		b.want("b", "exhausted", limited("a"))
		v, _ := b.book.View("a", time.Now())
		assert.Equal(t, accounts.Exhausted, v.State)
		_, err := b.lend(t.Context(), "build", limited("b"))
		var held *logins.Error
		require.ErrorAs(t, err, &held)
		assert.Equal(t, logins.Held, held.Code)
		<-time.After(time.Until(held.RetryAt))
		b.want("c", "exhausted", limited("b"))
		<-time.After(time.Minute)
		_, err = b.lend(t.Context(), "build", limited("c"))
		require.ErrorAs(t, err, &held)
		assert.Equal(t, logins.QuotaExhausted, held.Code)
		assert.False(t, held.RetryAt.IsZero())
		b.want("quota_exhausted", "", logins.Ask{Hold: "c", Have: true})
		assert.Equal(t, 1.0, testutil.ToFloat64(b.switches.WithLabelValues("a", "exhausted")))
		assert.Equal(t, 1.0, testutil.ToFloat64(b.lent.WithLabelValues("c")))
	})
}

// The pause outlives the process; so does the account, which the remote names.
func TestLoansAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Ordered)
		b.want("a", "", logins.Ask{})
		b.want("b", "exhausted", limited("a"))
		saved := b.book.Save()
		b = newLendingBed(t, accounts.Ordered)
		b.book.Restore(saved, time.Now())
		b.want("b", "", logins.Ask{Hold: "b", Have: true})
		b.want("held", "", limited("b"))
	})
}

// What a remote keeps needs no worker, and starts none.
func TestLoansThatAreKept(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", logins.Ask{Hold: "a", Have: true})
	assert.Empty(t, b.pool.lines)
	b.pool.away["a"] = true
	b.want("a", "", logins.Ask{Hold: "a", Have: true})
	b.want("b", "unavailable", logins.Ask{Hold: "a"})
	assert.Equal(t, []string{"b codex-proxy login"}, b.pool.lines)
}

// A refused token is refreshed by its worker, and is no reason for another account.
func TestLoansOfARefusedToken(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	digest := logins.Digest("x")
	b.want("a", "", logins.Ask{Hold: "a", Refused: logins.Unauthorized, Token: digest, Turn: true})
	assert.Equal(t, []string{"a codex-proxy login " + digest}, b.pool.lines)
	v, _ := b.book.View("a", time.Now())
	assert.False(t, v.Quota.DoubtedAt.IsZero(), "it is read soon")
}

func TestLoansOff(t *testing.T) {
	b := newLendingBed(t, accounts.Off)
	b.login("a", "apiKey")
	b.want("b", "", logins.Ask{})
	b.book.Read("b", "b", quotaOf(0.99, time.Now()))
	b.want("b", "", logins.Ask{Hold: "b", Have: true})
	_, err := b.lend(t.Context(), "build", limited("b"))
	require.ErrorContains(t, err, `rotation = "off"`)
	assert.Equal(t, logins.QuotaExhausted, logins.CodeOf(err))
	b.want("b", "", logins.Ask{Hold: "b", Have: true}) // the quota decides nothing
	require.NoError(t, b.book.Pause("b", true))
	b.want("c", "paused", logins.Ask{Hold: "b", Have: true})
}

// Without a rotation, too, no account that is known to be exhausted is lent for a turn that waits for quota, also by the
// next process. A reading ends it, before its reset or after it.
func TestLoansOfAWaitingTurnOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLendingBed(t, accounts.Off)
		b.want("a", "", logins.Ask{})
		b.ask(limited("a"))
		waits := logins.Ask{Hold: "a", Have: true, Waits: true}
		for range 2 {
			_, err := b.lend(t.Context(), "build", waits)
			var refused *logins.Error
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, logins.QuotaExhausted, refused.Code)
			assert.Equal(t, time.Hour, time.Until(refused.RetryAt))
			assert.Contains(t, refused.Message, `rotation = "off"`)
			b.want("quota_exhausted", "", logins.Ask{Hold: "a", Waits: true})
			b.want("a", "", logins.Ask{Hold: "a", Have: true, Turn: true}) // of a person
			saved := b.book.Save()
			b = newLendingBed(t, accounts.Off)
			b.book.Restore(saved, time.Now())
		}
		<-time.After(2 * time.Hour)
		b.want("quota_exhausted", "", waits)
		b.book.Read("a", "a", quotaOf(0.1, time.Now()))
		b.want("a", "", waits)
	})
}

// A turn that waits goes on with the account that takes the place of a paused one, if that has quota.
func TestLoansOfAWaitingTurnElsewhere(t *testing.T) {
	b := newLendingBed(t, accounts.Off)
	b.want("b", "", logins.Ask{Hold: "b"})
	b.ask(limited("b"))
	b.book.Refuse("a", time.Time{}, time.Now())
	waits := logins.Ask{Hold: "b", Have: true, Waits: true}
	require.NoError(t, b.book.Pause("b", true))
	b.want("quota_exhausted", "", waits)
	require.NoError(t, b.book.Pause("a", true))
	b.want("c", "paused", waits)
}

func TestLoansThatThereAreNot(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("no_account", "", logins.Ask{Accounts: []string{"z"}})
	b.want("c", "", logins.Ask{Accounts: []string{"c"}})
	b.want("c", "", logins.Ask{}) // it was the last one
	b.pool.deaf["c"] = true
	b.want("a", "", logins.Ask{})
	b.pool.deaf["a"], b.pool.away["b"] = true, true
	b.want("unavailable", "", logins.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		b.book.Invalidate(name, time.Now())
	}
	b.want("login_invalid", "", logins.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, b.book.Pause(name, true))
	}
	b.want("paused", "", logins.Ask{})
	for _, name := range []string{"a", "b", "c"} {
		b.login(name, "apiKey")
	}
	b.want("no_account", "", logins.Ask{})
}

// An account that has lent nothing is no rotation.
func TestLoansThatCameToNothing(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", logins.Ask{})
	b.want("b", "exhausted", limited("a"))
	again := limited("a")
	again.Avoid = []string{"b"}
	b.want("c", "exhausted", again)
}

// A remote cannot have the account of another one refused.
func TestLoansOfOthers(t *testing.T) {
	b := newLendingBed(t, accounts.Ordered)
	b.want("a", "", logins.Ask{})
	b.ask(limited("b"))
	v, _ := b.book.View("b", time.Now())
	assert.Equal(t, accounts.Available, v.State)
}

func TestPeerOfLoans(t *testing.T) {
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
			assert.Equal(t, logins.NotARemote, logins.CodeOf(err), unit)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, logins.Peer{Remote: remote, Run: "r"}, peer)
	}
	b.main = func(context.Context, uint32) (units.MainProcess, error) { return units.MainProcess{}, io.EOF }
	_, err := b.peer(t.Context(), 1)
	require.ErrorIs(t, err, io.EOF)
	assert.Empty(t, logins.CodeOf(err), "it may ask again")
}

// Over the socket: a remote is told of a switch, a pause and a low account between its turns, and of nothing else.
func TestLoansAreTold(t *testing.T) {
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
	work.Go(func() { assert.NoError(t, b.serve(ctx, l)) })
	c := logins.NewClient(path)
	work.Go(func() { c.Run(ctx) })
	lease := func(ask logins.Ask) logins.Grant {
		t.Helper()
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		g, err := c.Lease(bounded, ask)
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
	g := lease(logins.Ask{})
	assert.Equal(t, "a", g.Account)
	assert.Equal(t, "token of a", g.Login.AccessToken)
	c.Reading("a", json.RawMessage(`{"x":1}`))
	assert.True(t, lease(logins.Ask{Hold: "a", Have: true}).Kept)
	b.pool.mu.Lock()
	assert.Equal(t, []string{`a{"x":1}`}, b.pool.reported)
	b.pool.mu.Unlock()
	count, err := testutil.GatherAndCount(gatherer(t, b.loans), "codex_account_remotes")
	require.NoError(t, err)
	assert.Equal(t, 3, count)

	require.NoError(t, b.book.Switch("c"))
	told()
	g = lease(logins.Ask{Hold: "a", Have: true})
	assert.Equal(t, "c", g.Account)
	assert.Equal(t, "switched", g.Why)
	require.NoError(t, b.book.Pause("b", true)) // it is not for this remote
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
