package workers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

func TestDialsOnlyActiveUnits(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	for _, u := range []units.State{
		unit("a", "inactive", "dead", "", 0),
		unit("a", "activating", "start-pre", "1", 0),
		unit("a", "activating", "start", "1", 0),
		unit("a", "failed", "failed-before-auto-restart", "1", 0),
		unit("a", "activating", "auto-restart", "1", 0),
		unit("a", "activating", "auto-restart-queued", "1", 1),
		unit("a", "deactivating", "stop-sigterm", "1", 1),
		unit("a", "failed", "failed", "1", 1),
	} {
		r.report(u)
		r.settled(t)
		assert.Empty(t, s.accepted, "%s/%s", u.ActiveState, u.SubState)
	}
	r.report(running("a", "2", 2))
	r.awaitReady(t)
	assert.Len(t, s.accepted, 1, "the fake accepts in order: an earlier connection would count here")
}

func TestDialsNothingBeforeSystemdReports(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.settled(t)
	assert.Empty(t, s.accepted)
	r.pool.BusChanged(false, errors.New("the bus does not answer"))
	r.settled(t)
	reported := time.Now()
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	assert.True(t, s.awaitDial(t).After(reported))
	assert.Empty(t, s.accepted)
}

func TestReadyNeedsHandshakeAndModels(t *testing.T) {
	release := make(chan struct{})
	hold := func(ctx context.Context) {
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	for name, method := range map[string]string{"handshake": "initialize", "models": "model/list"} {
		t.Run(name, func(t *testing.T) {
			release = make(chan struct{})
			srv := &appservertest.Server{Faults: faults(method, hold)}
			r := newRig(t, nil, named{"a", fake(t, srv).path})
			r.noBus()
			r.run(t)
			r.settled(t)
			w := r.pool.Snapshot().Workers[0]
			assert.False(t, w.Ready)
			assert.Equal(t, probes.HandshakePending, w.Reason)
			close(release)
			w = r.awaitReady(t).Workers[0]
			assert.Equal(t, []string{"demo"}, w.Handshake.Models)
			assert.Contains(t, w.Handshake.UserAgent, "/demo ")
			assert.NotNil(t, w.LastReadyAt)
		})
	}
}

// A worker that advertises nothing is connected and not ready.
func TestNoModels(t *testing.T) {
	srv := &appservertest.Server{Models: []appservertest.Model{{ID: "secret", Hidden: true}}}
	r := newRig(t, nil, named{"a", fake(t, srv).path})
	r.noBus()
	r.run(t)
	r.await(t, "no_models", func(s probes.Snapshot) bool { return s.Workers[0].Reason == probes.NoModels })
	assert.Empty(t, r.pool.Models())
	_, err := r.pool.Pick("secret")
	assert.ErrorIs(t, err, dispatch.ErrNotReady)
}

func TestLossMakesNotReadyAtOnce(t *testing.T) {
	const kills = 50
	s := fake(t, &appservertest.Server{})
	var r *rig
	lost := make(chan time.Time, 1)
	r = newRig(t, func(settings *workers.Settings) {
		signal := settings.OnChange
		settings.OnChange = func() {
			if w := r.pool.Snapshot().Workers[0]; w.Reason == probes.HandshakeLost {
				select {
				case lost <- time.Now():
				default:
				}
			}
			signal()
		}
	}, named{"a", s.path})
	r.run(t)
	invocation := 0
	var took []time.Duration
	for range kills {
		invocation++
		r.report(running("a", fmt.Sprint(invocation), uint32(invocation)))
		r.awaitReady(t)
		began := time.Now()
		s.cut(t)
		select {
		case at := <-lost:
			took = append(took, at.Sub(began))
		case <-time.After(bound):
			require.Fail(t, "the loss was not noticed")
		}
	}
	slices.Sort(took)
	t.Logf("end of stream to not ready: p50 %s, p99 %s, max %s", took[kills/2], took[kills*99/100-1], took[kills-1])
	assert.Less(t, took[0], 100*time.Millisecond) // some wait for a processor
}

func TestRedialWaitsForSystemd(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	s.awaitDial(t)

	lost := time.Now()
	w := r.lose(t, func() { s.cut(t) })[0]
	assert.Equal(t, probes.HandshakeLost, w.Reason)
	assert.GreaterOrEqual(t, s.awaitDial(t).Sub(lost), 900*time.Millisecond,
		"systemd could still have reported the end of the worker")
	r.awaitReady(t)
}

func TestNewInvocationIsDialledAtOnce(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	s.awaitDial(t)
	n := uint32(1)
	const limit = 500 * time.Millisecond
	assert.Less(t, quickest(limit, func() time.Duration {
		r.lose(t, func() { s.cut(t) }, unit("a", "activating", "auto-restart", fmt.Sprint(n), n-1))
		r.report(unit("a", "activating", "start", fmt.Sprint(n+1), n))
		r.settled(t)
		assert.Empty(t, s.accepted)
		n++
		reported := time.Now()
		r.report(running("a", fmt.Sprint(n), n-1))
		took := s.awaitDial(t).Sub(reported)
		r.awaitReady(t)
		return took
	}), limit)
}

// quickest is for an event that is to happen at once, within limit: other work of the
// machine delays it now and then, and not each time.
func quickest(limit time.Duration, try func() time.Duration) time.Duration {
	took := try()
	for range 9 {
		if took >= limit {
			took = min(took, try())
		}
	}
	return took
}

// soon is shorter than the pause after a loss.
const soon = 900 * time.Millisecond

// initialize is a fake worker with a fault at the first call of the handshake.
func initialize(f appservertest.Fault) *appservertest.Server {
	return &appservertest.Server{Faults: map[string]appservertest.Fault{"initialize": f}}
}

// A handshake cut short may be a death that systemd has not reported yet, so the
// pause is as long as after a loss. It is short where no program listens, for then
// systemd starts none.
func TestPauseAfterAFailedDial(t *testing.T) {
	t.Run("cut off", func(t *testing.T) {
		s := fake(t, initialize(appservertest.Times(1, appservertest.Disconnect)))
		r := newRig(t, nil, named{"a", s.path})
		r.run(t)
		r.report(running("a", "1", 0))
		first := s.awaitDial(t)
		assert.GreaterOrEqual(t, s.awaitDial(t).Sub(first), 900*time.Millisecond)
		r.awaitReady(t)
	})
	t.Run("no listener", func(t *testing.T) {
		assert.Less(t, quickest(soon, func() time.Duration {
			r := newRig(t, nil, named{"a", t.TempDir() + "/none"})
			r.run(t)
			began := time.Now()
			r.report(running("a", "1", 0))
			r.awaitLog(t, "worker connection ended", 2)
			return time.Since(began)
		}), soon)
	})
}

// awaitLog waits until the log holds text n times. Each failed dial changes the state.
func (r *rig) awaitLog(t *testing.T, text string, n int) {
	t.Helper()
	r.await(t, text, func(probes.Snapshot) bool { return strings.Count(r.log.String(), text) >= n })
}

func TestNoBusHandshakeAloneDecides(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.noBus()
	w := r.awaitReady(t).Workers[0]
	assert.Empty(t, w.ActiveState)
	s.awaitDial(t)
	assert.Less(t, quickest(soon, func() time.Duration {
		lost := time.Now()
		s.cut(t)
		took := s.awaitDial(t).Sub(lost)
		r.awaitReady(t)
		return took
	}), soon, "there is no report to wait for")
}

func TestBusLost(t *testing.T) {
	for name, reason := range map[string]error{
		"closed":         errors.New("the bus connection ended"),
		"its socket too": units.ErrNoBus, // systemd has reported once: it still holds the sockets
	} {
		t.Run(name, func(t *testing.T) {
			a, b := fake(t, &appservertest.Server{}), fake(t, &appservertest.Server{})
			r := newRig(t, nil, named{"a", a.path}, named{"b", b.path})
			r.run(t)
			r.report(running("a", "1", 0), unit("b", "inactive", "dead", "", 0))
			r.await(t, "a ready", aReady)

			r.pool.BusChanged(false, reason)
			r.settled(t)
			assert.True(t, r.pool.Snapshot().Workers[0].Ready, "a connected worker stays ready")
			assert.Empty(t, b.accepted, "nothing new is dialled")

			again := time.Now()
			r.report(running("b", "1", 0))
			r.awaitReady(t)
			assert.True(t, b.awaitDial(t).After(again))
		})
	}
}

// A process that systemd has never answered connects to a worker that runs, and starts
// no other.
func TestBusRefuses(t *testing.T) {
	a, b := fake(t, &appservertest.Server{}), fake(t, &appservertest.Server{})
	r := newRig(t, func(s *workers.Settings) {
		s.Runs = func(name string) bool { return name == "a" }
	}, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.settled(t)
	assert.Empty(t, a.accepted, "systemd may still answer")
	r.pool.BusChanged(false, errors.New("access denied"))
	r.await(t, "a ready", aReady)
	a.awaitDial(t)
	a.cut(t)
	r.await(t, "a lost", func(s probes.Snapshot) bool { return !aReady(s) })
	r.settled(t)
	assert.Empty(t, a.accepted, "it may have been stopped")
	assert.Empty(t, b.accepted)
}

func TestSilentHandshakeIsRetriedWithGrowingPauses(t *testing.T) {
	const timeout = 200 * time.Millisecond
	s := fake(t, initialize(appservertest.Times(3, appservertest.Silent)))
	r := newRig(t, func(settings *workers.Settings) { settings.HandshakeTimeout = timeout }, named{"a", s.path})
	r.noBus()
	began, least := time.Now(), time.Duration(0)
	r.run(t)
	last := s.awaitDial(t)
	var gaps []time.Duration
	for _, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		least += timeout + pause
		// A busy machine delays any of them, so that two may be closer together.
		at := s.awaitDial(t)
		assert.GreaterOrEqual(t, at.Sub(began), least-10*time.Millisecond)
		gaps, last = append(gaps, at.Sub(last)), at
	}
	assert.Less(t, slices.Min(gaps), timeout+soon, "shorter than after a loss")
	r.awaitReady(t)
	// On a busy machine the fake may take too long one more time.
	failures := strings.Count(r.log.String(), "worker connection ended")
	assert.Equal(t, 3+len(s.accepted), failures, "each failure is logged: %s", r.log)
}

// The proxy's watchdog must not blame the proxy for a worker that hangs.
func TestAliveWhileTheWorkerHangs(t *testing.T) {
	s := fake(t, initialize(appservertest.Silent))
	r := newRig(t, nil, named{"a", s.path})
	r.noBus()
	r.run(t)
	s.awaitDial(t)
	r.settled(t)
}

func TestAliveIsBounded(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"}) // its loop does not run
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := r.pool.Alive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Contains(t, err.Error(), "worker a")
}
