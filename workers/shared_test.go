package workers_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/history"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// sharedRig is one codex for the accounts a and b, once it serves them, and the addresses of their turns.
type sharedRig struct {
	*rig
	socket *socket
	serves atomic.Bool

	mu    sync.Mutex
	addrs []any
}

func newSharedRig(t *testing.T) *sharedRig {
	t.Helper()
	r := &sharedRig{}
	srv := &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		r.mu.Lock()
		r.addrs = append(r.addrs, turn.Request.Config["model_providers.accounts.base_url"])
		r.mu.Unlock()
		turn.Text("x")
		turn.EndResponse(appservertest.Usage{})
		return nil
	}}
	r.socket = fake(t, srv)
	path := r.socket.path
	r.rig = newRig(t, func(s *workers.Settings) {
		s.Serving = func(worker string) []string {
			assert.Equal(t, "a", worker)
			if !r.serves.Load() {
				return nil
			}
			return []string{"a", "b"}
		}
	}, named{"a", path}, named{"b@a", path})
	return r
}

func (r *sharedRig) turn(t *testing.T, account string) {
	t.Helper()
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{account}}))
	assert.Equal(t, account, lease.Worker)
	defer lease.Release()
	turn, err := lease.Conn.StartTurn(t.Context(), appserver.TurnRequest{Model: "demo",
		Items: []history.Item{history.TextMessage("user", "hello")}})
	require.NoError(t, err)
	for {
		event, err := turn.Next(t.Context())
		require.NoError(t, err)
		if _, done := event.(appserver.TurnCompleted); done {
			require.NoError(t, turn.Close(t.Context()))
			return
		}
	}
}

// An account that another worker is to serve has no turns until the codex of that does. Its threads name it then, and
// so do the threads of the worker's own account.
func TestServedAccount(t *testing.T) {
	r := newSharedRig(t)
	r.run(t)
	r.report(running("a", "1", 0))
	r.await(t, "a is ready", aReady)
	r.turn(t, "a")
	r.report(running("b", "9", 0)) // its own unit does not count
	r.settled(t)
	assert.False(t, r.pool.Snapshot().Workers[1].Ready)
	assert.Contains(t, r.log.String(), "codex-worker@a.service does not serve the account b yet: systemctl restart")
	r.serves.Store(true)
	r.socket.cut(t)
	r.report(unit("a", "inactive", "dead", "1", 0))
	r.await(t, "a is down", func(s probes.Snapshot) bool { return !aReady(s) })
	r.report(running("a", "2", 0))
	s := r.awaitReady(t)
	assert.Equal(t, "codex-worker@a.service", s.Workers[1].Unit)
	assert.Equal(t, "2", s.Workers[1].InvocationID)
	r.turn(t, "b")
	r.turn(t, "a")
	assert.Equal(t, []any{nil, "http://127.0.0.1:8790/accounts/b", "http://127.0.0.1:8790/accounts/a"}, r.addrs)
	for _, a := range r.pool.Accounts() {
		assert.Empty(t, a.Limits, "codex does not know the account of the limits that it reports: %+v", a)
	}
}

// A drain, and the start on another codex, are for all accounts of the codex; a pause is for one.
func TestOneCodexEndsForAllAccounts(t *testing.T) {
	r := newSharedRig(t)
	r.serves.Store(true)
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	require.NoError(t, r.pool.AccountStore().Pause("a", true))
	r.turn(t, "b")
	require.NoError(t, r.pool.AccountStore().Pause("a", false))

	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{"b"}}))
	require.ErrorIs(t, workers.RenewalsOf(r.pool).Renew("a", ""), workers.ErrBusyOrGone, "b has a turn")
	require.NoError(t, r.pool.DrainWorker("a"))
	for _, w := range r.pool.Snapshot().Workers {
		assert.Equal(t, probes.Draining, w.Reason)
	}
	idle := make(chan error, 1)
	go func() { idle <- r.pool.AwaitIdle(t.Context(), "a") }()
	assert.Empty(t, idle)
	lease.Release()
	require.NoError(t, <-idle)
	require.NoError(t, r.pool.UndrainWorker("a"))
	r.awaitReady(t)
}

// The turns of all accounts, and the images that codex decodes for them, have the bounds of one worker.
func TestAccountsShareTheRoom(t *testing.T) {
	r := newSharedRig(t)
	r.serves.Store(true)
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	const most = 512 << 20
	first := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{"a"}, Decoding: most}))
	second := r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{"b"}, Decoding: most})
	r.waits(t, 1)
	first.Decoded()
	r.awaitLease(t, second).Release()
	first.Release()

	var all []*dispatch.Lease
	for i := range 4 { // MaxInflight
		account := r.pool.Names()[i%2]
		all = append(all, r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{account}})))
	}
	next := r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{"a"}})
	r.waits(t, 1)
	all[1].Release()
	r.awaitLease(t, next).Release()
	for _, lease := range all {
		lease.Release()
	}
}

// A turn that was lost with codex does not run on another account of the same codex, whose connection may not have
// ended yet: it runs on the next one, or on a new connection of its account.
func TestATurnIsLostOncePerCodex(t *testing.T) {
	r := newSharedRig(t)
	r.serves.Store(true)
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	lost := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo", Accounts: []string{"a"}}))
	again := dispatch.Ask{Model: "demo", Lost: lost, Avoid: []*appserver.Conn{lost.Conn},
		LostCodexes: []dispatch.Codex{lost.Codex}}
	waiting := r.ask(t, again)
	r.waits(t, 1)
	assert.True(t, r.pool.Snapshot().Workers[1].Ready, "its connection is open")
	r.report(running("a", "2", 0))
	lease := r.awaitLease(t, waiting)
	assert.Equal(t, dispatch.Codex{Invocation: "2", Account: "b"}, lease.Codex)
	lease.Release()

	again = dispatch.Ask{Model: "demo", Accounts: []string{"b"}, LostCodexes: []dispatch.Codex{lease.Codex}}
	r.awaitLease(t, r.ask(t, again)).Release()
}
