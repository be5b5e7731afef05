package workers_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

func stopped(name, invocation string) units.State {
	return unit(name, "inactive", "dead", invocation, 0)
}

// awaitLines reads the lines of the next connection for annotations until it ends.
func (s *socket) awaitLines(t *testing.T) string {
	t.Helper()
	conn := s.awaitAnnotations(t)
	defer conn.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	var all []string
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	require.NoError(t, lines.Err())
	return strings.Join(all, "; ")
}

func (r *rig) awaitReason(t *testing.T, worker int, reason probes.Reason) probes.Snapshot {
	t.Helper()
	return r.await(t, string(reason), func(s probes.Snapshot) bool { return s.Workers[worker].Reason == reason })
}

func (r *rig) phases() (all []accounts.Phase) {
	for _, u := range r.pool.Units(time.Now()) {
		all = append(all, u.Phase)
	}
	return all
}

// A connection to the socket starts the stopped unit of a worker that is needed, and no
// other one.
func TestNeededWorkerIsStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		role   workers.Role
		before func(*rig)
		state  units.State
		want   probes.Reason
		starts bool
	}{
		"needed":          {role: workers.Needed, state: stopped("a", "1"), want: probes.Standby, starts: true},
		"spare":           {role: workers.Spare, state: stopped("a", "1"), want: probes.Standby},
		"as the operator": {role: workers.Fixed, state: stopped("a", "1"), want: probes.Stopped},
		"given up": {role: workers.Needed, state: unit("a", "failed", "failed", "1", 0),
			want: probes.WorkerExited},
		"waits to restart": {role: workers.Needed, state: unit("a", "activating", "auto-restart", "1", 1),
			want: probes.BackingOff},
		"restarts in a wink": {role: workers.Needed,
			state: unit("a", "inactive", "dead-before-auto-restart", "1", 0), want: probes.WorkerExited},
		"masked": {role: workers.Needed, state: masked(stopped("a", "1")), want: probes.Stopped},
		"drained": {role: workers.Needed, state: stopped("a", "1"), want: probes.Stopped,
			before: func(r *rig) { _ = r.pool.DrainWorker("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := fake(t, &appservertest.Server{})
			r := newRig(t, nil, named{"a", s.path})
			r.run(t)
			if tc.before != nil {
				tc.before(r)
			}
			require.NoError(t, r.pool.SetRole("a", tc.role))
			r.report(tc.state)
			r.awaitReason(t, 0, tc.want)
			if !tc.starts {
				r.settled(t)
				s.idle(t)
				return
			}
			assert.Equal(t, "codex-proxy annotations", s.awaitLines(t), "the shim gets an empty list")
			r.report(unit("a", "activating", "start", "2", 0))
			r.awaitReason(t, 0, probes.Starting)
			r.settled(t)
			s.idle(t)
			r.report(running("a", "2", 0))
			r.awaitReady(t)
			s.awaitAnnotations(t).Close()
		})
	}
}

func masked(u units.State) units.State {
	u.LoadState = "masked"
	return u
}

func TestStartOfAStandbyFails(t *testing.T) {
	r := newRig(t, nil, named{"a", "/run/no-such-directory/s"})
	r.run(t)
	r.report(stopped("a", "1"))
	require.NoError(t, r.pool.SetRole("a", workers.Needed))
	r.awaitReason(t, 0, probes.Stopped)
	assert.Equal(t, 1, strings.Count(r.log.String(), "cannot start a standby worker"))
	_, err := r.pool.Pick("demo")
	assert.ErrorIs(t, err, dispatch.ErrNotReady)
	require.ErrorIs(t, r.pool.SetRole("x", workers.Needed), workers.ErrUnknown)
}

// restingRig is a worker a that has gone on standby and a standby b.
func restingRig(t *testing.T) (r *rig, a, b *socket) {
	t.Helper()
	a, b = fake(t, &appservertest.Server{}), fake(t, &appservertest.Server{})
	policy := accounts.Policy{Rotation: accounts.Ordered, Order: []string{"a", "b"}, Warm: 1}
	book := accounts.NewStore(policy, policy.Order, func() {})
	r = newRig(t, func(s *workers.Settings) { s.AccountStore = book }, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	for _, name := range r.pool.Names() {
		require.NoError(t, r.pool.SetRole(name, workers.Spare))
	}
	r.report(running("a", "1", 0), stopped("b", "1"))
	r.awaitReason(t, 0, probes.Ready)
	r.awaitReason(t, 1, probes.Standby)
	a.awaitDial(t)
	return r, a, b
}

// The line to the shim ends an idle worker. Meanwhile it takes no turns, and nothing
// connects to it: a connection that nobody accepts would start it again.
func TestRest(t *testing.T) {
	r, a, _ := restingRig(t)
	require.NoError(t, r.pool.Rest("a", "it is idle"))
	assert.Equal(t, probes.Draining, r.pool.Snapshot().Workers[0].Reason)
	assert.Equal(t, "codex-proxy annotations; rest it is idle", a.awaitLines(t))
	require.ErrorIs(t, r.pool.Rest("a", "it is idle"), workers.ErrBusyOrGone, "it is being ended")
	r.report(unit("a", "deactivating", "stop-sigterm", "1", 0))
	r.awaitReason(t, 0, probes.Draining)
	assert.Equal(t, []accounts.Phase{accounts.Going, accounts.Cold}, r.phases())
	r.settled(t)
	before := r.pool.Models()
	r.report(stopped("a", "1"))
	r.awaitReason(t, 0, probes.Standby)
	r.settled(t)
	a.idle(t)
	assert.Empty(t, before, "a worker that is being stopped")
	assert.Equal(t, []string{"demo"}, r.pool.Models("a"), "a standby has the models of its last run")
	assert.Empty(t, r.pool.Models("b"), "it never ran")
	require.ErrorIs(t, r.pool.Rest("b", "it is idle"), workers.ErrBusyOrGone, "it is stopped")
	require.ErrorIs(t, r.pool.Rest("x", ""), workers.ErrUnknown)
	assert.Contains(t, r.log.String(), "worker goes on standby")
	assert.NotContains(t, r.log.String(), "worker does not go on standby")
}

func TestBusyWorkerDoesNotRest(t *testing.T) {
	r, a, _ := restingRig(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	require.ErrorIs(t, r.pool.Rest("a", ""), workers.ErrBusyOrGone)
	done := hold(lease)
	lease.Release()
	require.ErrorIs(t, r.pool.Rest("a", ""), workers.ErrBusyOrGone, "codex has yet to end the turn")
	done()
	r.pool.SetPeerLoads(map[string]workers.Load{"a": {Turns: 1}})
	require.ErrorIs(t, r.pool.Rest("a", ""), workers.ErrBusyOrGone, "another process has a turn on it")
	r.pool.SetPeerLoads(nil)
	assert.WithinDuration(t, time.Now(), r.pool.Units(time.Now())[0].UsedAt, bound)
	require.NoError(t, r.pool.Rest("a", ""))
	a.awaitAnnotations(t).Close()
}

// A request that comes while its only worker goes on standby loses nothing: it starts the
// worker again.
func TestRequestStartsAStandby(t *testing.T) {
	r, a, b := restingRig(t)
	require.NoError(t, r.pool.DrainWorker("b"))
	require.NoError(t, r.pool.Rest("a", ""))
	a.awaitAnnotations(t).Close()
	leased := r.ask(t, dispatch.Ask{Model: "demo"})
	r.report(unit("a", "deactivating", "stop-sigterm", "1", 0))
	r.settled(t)
	r.report(stopped("a", "1"))
	a.awaitAnnotations(t).Close()
	require.NotZero(t, r.pool.Units(time.Now())[0].WantedAt, "the plan keeps it")
	r.report(unit("a", "activating", "start", "2", 0), running("a", "2", 0))
	lease := r.awaitLease(t, leased)
	assert.Equal(t, "a", lease.Worker)
	lease.Release()
	b.idle(t)

	require.NoError(t, r.pool.Rest("a", ""))
	a.awaitAnnotations(t).Close()
	r.report(unit("a", "deactivating", "stop-sigterm", "2", 0), stopped("a", "2"))
	r.awaitReason(t, 0, probes.Standby)
	r.settled(t)
	a.idle(t) // the request that it was started for has been served
}

// While a worker that may serve the request starts, no other one is started for it. When
// that worker waits for its restart, another one is.
func TestRequestStartsNoSecondWorker(t *testing.T) {
	r, a, b := restingRig(t)
	a.awaitAnnotations(t).Close()
	r.report(unit("a", "activating", "start", "2", 0))
	r.awaitReason(t, 0, probes.Starting)
	leased := r.ask(t, dispatch.Ask{Model: "demo"})
	r.settled(t)
	b.idle(t)
	r.report(unit("a", "activating", "auto-restart", "2", 1))
	b.awaitAnnotations(t).Close()
	r.report(running("b", "2", 0))
	lease := r.awaitLease(t, leased)
	assert.Equal(t, "b", lease.Worker)
	lease.Release()
	b.awaitAnnotations(t).Close()
}

// A lost turn avoids the connection that it was lost on; then a standby serves it.
func TestStandbyServesALostTurn(t *testing.T) {
	r, a, b := restingRig(t)
	a.awaitAnnotations(t).Close()
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	again := r.ask(t, dispatch.Ask{Model: "demo", Lost: lease, Avoid: []*appserver.Conn{lease.Conn}})
	b.awaitAnnotations(t).Close()
	r.report(running("b", "2", 0))
	second := r.awaitLease(t, again)
	assert.Equal(t, "b", second.Worker)
	second.Release()
	b.awaitAnnotations(t).Close()
}

// A connection for annotations that was lost is made again for the line. A worker that takes
// none has no shim, and takes turns again.
func TestRestWithoutAShim(t *testing.T) {
	r, a, _ := restingRig(t)
	require.NoError(t, a.awaitAnnotations(t).Close())
	r.await(t, "that the shim is gone", func(probes.Snapshot) bool {
		lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
		defer lease.Release()
		annotate(lease, "thread", "request") // finds that the connection has ended
		return true
	})
	require.NoError(t, r.pool.Rest("a", "it is idle"))
	assert.Equal(t, "codex-proxy annotations; rest it is idle", a.awaitLines(t))

	r, a, _ = restingRig(t)
	require.NoError(t, a.awaitAnnotations(t).Close())
	require.NoError(t, os.Remove(a.path))
	require.ErrorIs(t, r.pool.Rest("a", ""), workers.ErrBusyOrGone)
	assert.Equal(t, probes.Ready, r.pool.Snapshot().Workers[0].Reason)
	require.ErrorIs(t, r.pool.Rest("a", ""), workers.ErrBusyOrGone)
	assert.Equal(t, 1, strings.Count(r.log.String(), "worker does not go on standby"))
}

// A request for which every running worker is full starts a standby.
func TestFullWorkerStartsAStandby(t *testing.T) {
	r, a, b := restingRig(t)
	a.awaitAnnotations(t).Close()
	for range 4 {
		lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
		t.Cleanup(lease.Release)
	}
	r.settled(t)
	b.idle(t)
	leased := r.ask(t, dispatch.Ask{Model: "demo"})
	b.awaitAnnotations(t).Close()
	r.report(running("b", "2", 0))
	lease := r.awaitLease(t, leased)
	assert.Equal(t, "b", lease.Worker)
	lease.Release()
	b.awaitAnnotations(t).Close()
}
