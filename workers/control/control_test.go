package control_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
	"codex-proxy/workers/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is the longest that any wait of these tests takes.
const bound = time.Minute

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	return ctx
}

// rig is a control server in front of a pool of one ready fake worker, a.
type rig struct {
	*control.Client
	pool    *workers.Pool
	server  *control.Server
	changes *control.Changes
	socket  string
	files   []string     // key files, in the order of their arrival
	before  atomic.Int32 // turns of the earlier process
	moved   atomic.Int32 // that many commands are refused, as another process serves
}

func (r *rig) InForce() control.Keys { return control.Keys{Count: 7, File: "/own", Digest: "d"} }

func (r *rig) Replace(path, file string) (control.Keys, error) {
	if path != "" && path != "/own" {
		return control.Keys{}, control.ErrOtherFile
	}
	if r.moved.Add(-1) >= 0 {
		return control.Keys{}, control.ErrMoved
	}
	if file == "bad" {
		return control.Keys{}, errors.New("line 1: bad")
	}
	r.files = append(r.files, file)
	return control.Keys{Count: 1, Closed: file == ""}, nil
}

// drains is the DrainTable of a rig, whose own Drain is the client's.
type drains struct{ *rig }

func (r drains) Drain(change control.Drain) error {
	if r.moved.Add(-1) >= 0 {
		return control.ErrMoved
	}
	return change.Apply(r.pool)
}

func (r drains) Before() map[string]int { return map[string]int{"a": int(r.before.Load())} }

// accountTable is the AccountTable of a rig, which carries out each order but for "no".
type accountTable struct{ *rig }

func (r accountTable) Accounts() control.Accounts {
	all := control.Accounts{Rotation: accounts.Ordered}
	for _, a := range accounts.Known(r.pool.AccountStore(), time.Now()) {
		all.Accounts = append(all.Accounts, control.Account{Account: a, Next: true, Why: "so"})
	}
	return all
}

func (r accountTable) Order(o control.AccountOrder) error {
	if r.moved.Add(-1) >= 0 {
		return control.ErrMoved
	}
	if o.Do != control.PauseAccount {
		return errors.New("cannot: do that first")
	}
	return r.pool.AccountStore().Pause(o.Account, true)
}

// awaitAccount waits until the account of the worker is known: the fake needs no login.
func (r *rig) awaitAccount(t *testing.T) (got control.Accounts) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		var err error
		got, err = r.Accounts(t.Context())
		return err == nil && len(got.Accounts) == 1
	}, bound, time.Millisecond)
	return got
}

func TestAccounts(t *testing.T) {
	r := newRig(t)
	got := r.awaitAccount(t)
	assert.Equal(t, accounts.Ordered, got.Rotation)
	assert.Equal(t, "a", got.Accounts[0].Worker)
	assert.Equal(t, "so", got.Accounts[0].Why)
	assert.True(t, got.Accounts[0].Next)
	_, err := control.NewClient(filepath.Join(t.TempDir(), "none")).Accounts(t.Context())
	assert.ErrorIs(t, err, control.ErrNotRunning)
}

func TestOrdersForAccounts(t *testing.T) {
	r := newRig(t)
	r.awaitAccount(t)
	r.moved.Store(2)
	got, err := r.OrderAccount(t.Context(), control.AccountOrder{Account: "a", Do: control.PauseAccount})
	require.NoError(t, err, "it asks the process that has taken over")
	assert.True(t, got.Accounts[0].Paused)
	_, err = r.OrderAccount(t.Context(), control.AccountOrder{Account: "b", Do: control.PauseAccount})
	require.ErrorContains(t, err, `no such account: "b"; there are a`)
	_, err = r.OrderAccount(t.Context(), control.AccountOrder{Account: "a", Do: control.SwitchAccount})
	require.EqualError(t, err, "cannot: do that first")
	_, err = r.OrderAccount(t.Context(), control.AccountOrder{Account: strings.Repeat("x", 70_000)})
	require.ErrorContains(t, err, "cannot read the request")
}

func TestKeys(t *testing.T) {
	r := newRig(t)
	got, err := r.SetKeys(t.Context(), "/own", "alice 00\n")
	require.NoError(t, err)
	assert.Equal(t, control.Keys{Count: 1}, got)
	_, err = r.SetKeys(t.Context(), "", "bad")
	assert.EqualError(t, err, "line 1: bad")
	r.moved.Store(2)
	got, err = r.SetKeys(t.Context(), "", "")
	require.NoError(t, err, "it asks the process that has taken over")
	assert.True(t, got.Closed)
	assert.Equal(t, []string{"alice 00\n", ""}, r.files)
	_, err = r.SetKeys(t.Context(), "/an other", "bob 00\n")
	assert.ErrorIs(t, err, control.ErrOtherFile)
	assert.ErrorContains(t, err, "goes by /own and not by /an other: systemctl reload")
	_, err = r.SetKeys(t.Context(), "", strings.Repeat("x", 70_000))
	assert.ErrorContains(t, err, "cannot read the keys")
	got, err = r.Keys(t.Context())
	require.NoError(t, err)
	assert.Equal(t, r.InForce(), got)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // not t.TempDir: a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	r := &rig{socket: filepath.Join(dir, "socket"), changes: control.NewChanges()}
	changed := make(chan struct{}, 1)
	onChange := func() {
		r.changes.Changed()
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	logger := slog.New(slog.DiscardHandler)
	a := workers.New("a", appservertest.Start(t, &appservertest.Server{}), workers.Settings{
		MaxInflight: 4, HandshakeTimeout: bound, ResetAfter: time.Hour, OnChange: onChange, Logger: logger,
	})
	r.pool = workers.NewPool([]*workers.Worker{a}, dispatch.Queue{Limit: 4, Timeout: bound, ReadyTimeout: bound}, onChange)
	tracker := probes.NewTracker(time.Now(), func(probes.Flip) {})
	report := func() probes.Report { return tracker.Observe(r.pool.Snapshot()) }
	r.server = control.New(control.Settings{
		Pool: r.pool, Report: report, Changes: r.changes, Keys: r, Drains: drains{r}, Accounts: accountTable{r}, Logger: logger,
	})
	l, err := control.Listen(r.socket)
	require.NoError(t, err)
	r.Client = control.NewClient(r.socket)

	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { assert.NoError(t, r.pool.Run(ctx)) })
	g.Go(func() { assert.NoError(t, r.server.Serve(l)) })
	t.Cleanup(func() {
		assert.NoError(t, r.server.Shutdown(bounded(t)))
		cancel()
		g.Wait()
	})
	r.pool.BusChanged(false, units.ErrNoBus)
	for limit := bounded(t); !r.pool.Snapshot().Workers[0].Ready; {
		select {
		case <-changed:
		case <-limit.Done():
			require.Fail(t, "the worker never got ready")
		}
	}
	return r
}

func (r *rig) lease(t *testing.T) *dispatch.Lease {
	t.Helper()
	lease, err := r.pool.Acquire(t.Context(), dispatch.Ask{Model: r.pool.Models()[0]})
	require.NoError(t, err)
	return lease
}

func TestStatus(t *testing.T) {
	r := newRig(t)
	report, raw, err := r.Status(t.Context())
	require.NoError(t, err)
	assert.True(t, report.OK)
	assert.Equal(t, "a", report.Workers[0].Name)
	assert.Contains(t, string(raw), `"workers":[{"name":"a"`)
}

func TestDrainAnswersWhenTheLastTurnHasEnded(t *testing.T) {
	r := newRig(t)
	lease := r.lease(t)
	report, err := r.Drain(t.Context(), control.Request{Worker: "a"})
	require.NoError(t, err)
	assert.Equal(t, 1, report.Workers[0].Inflight)
	assert.Equal(t, probes.Draining, report.Workers[0].Reason)

	report, err = r.Drain(t.Context(), control.Request{WaitMS: 20})
	require.NoError(t, err)
	assert.Equal(t, 1, report.Workers[0].Inflight, "the report has the remaining turn")

	answers := make(chan probes.Report)
	go func() {
		report, err := r.Drain(context.Background(), control.Request{Worker: "a", WaitMS: bound.Milliseconds()})
		assert.NoError(t, err)
		answers <- report
	}()
	lease.Release()
	assert.Zero(t, (<-answers).Workers[0].Inflight)

	report, err = r.Undrain(t.Context(), control.Request{})
	require.NoError(t, err)
	assert.True(t, report.OK)
}

// No drain is lost while another process takes over.
func TestDrainDuringAHandOff(t *testing.T) {
	r := newRig(t)
	r.moved.Store(2)
	report, err := r.Drain(t.Context(), control.Request{})
	require.NoError(t, err)
	assert.True(t, report.Workers[0].Drained)
	r.moved.Store(2)
	report, err = r.Undrain(t.Context(), control.Request{Worker: "a"})
	require.NoError(t, err)
	assert.False(t, report.Workers[0].Drained)
}

// After a reload the earlier process may still have turns on the worker.
func TestDrainWaitsForTheEarlierProcess(t *testing.T) {
	r := newRig(t)
	r.before.Store(2)
	report, err := r.Drain(t.Context(), control.Request{Worker: "a", WaitMS: 20})
	require.NoError(t, err)
	assert.Equal(t, 2, report.Workers[0].Inflight)
	answers := make(chan probes.Report)
	go func() {
		report, err := r.Drain(context.Background(), control.Request{WaitMS: bound.Milliseconds()})
		assert.NoError(t, err)
		answers <- report
	}()
	r.before.Store(0)
	r.changes.Changed()
	assert.Zero(t, (<-answers).Workers[0].Inflight)
}

func TestUnknownWorker(t *testing.T) {
	_, err := newRig(t).Drain(t.Context(), control.Request{Worker: "b"})
	assert.EqualError(t, err, `no such worker: "b"; there are a`)
}

func TestWatchSendsEveryChangeOnce(t *testing.T) {
	r := newRig(t)
	seen := make(chan probes.Report)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.Watch(ctx, func(report probes.Report, _ []byte) error {
			seen <- report
			return nil
		})
	}()
	assert.True(t, (<-seen).OK)
	r.changes.Changed() // although nothing has changed
	require.NoError(t, r.pool.DrainWorker("a"))
	assert.False(t, (<-seen).OK)
	cancel()
	assert.NoError(t, <-ended)
}

// A daemon that stops answers the commands that wait.
func TestShutdownAnswersWaitingCommands(t *testing.T) {
	r := newRig(t)
	defer r.lease(t).Release()
	watched, watching := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		watched <- r.Watch(context.Background(), func(probes.Report, []byte) error {
			select {
			case watching <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	<-watching
	drained := make(chan error, 1)
	go func() {
		_, err := r.Drain(context.Background(), control.Request{WaitMS: time.Hour.Milliseconds()})
		drained <- err
	}()
	for limit := bounded(t); !r.pool.Snapshot().Workers[0].Drained; { // the command has arrived
		require.NoError(t, limit.Err())
	}
	require.NoError(t, r.server.Shutdown(bounded(t)))
	assert.NoError(t, <-drained)
	assert.EqualError(t, <-watched, "codex-proxy has stopped, or was restarted")
}

func TestSocketIsForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 2 { // the socket of an earlier daemon is replaced
		l, err := control.Listen(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.NoError(t, l.Close())
		assert.FileExists(t, path, "it may already be the socket of the next daemon")
	}
	_, _, err := control.NewClient(path).Status(t.Context())
	assert.ErrorIs(t, err, control.ErrNotRunning)
	_, _, err = control.NewClient(path + "x").Status(t.Context())
	assert.ErrorIs(t, err, control.ErrNotRunning)
}

// A mistyped path removes no file.
func TestOnlySocketsAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	require.NoError(t, os.WriteFile(path, []byte("usage"), 0o600))
	_, err := control.Listen(path)
	assert.ErrorContains(t, err, "there is a file that is none")
	assert.FileExists(t, path)
}

// A daemon that dies during a command counts as not running.
func TestDaemonThatDies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		closed <- errors.Join(err, conn.Close())
	}()
	_, _, err = control.NewClient(path).Status(t.Context())
	assert.ErrorIs(t, err, control.ErrNotRunning)
	assert.NoError(t, <-closed)
	assert.NoError(t, l.Close())
}
