package workers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
)

// systemd's NRestarts falls back to zero and counts a refused restart, and reports can
// be missed; the published counter counts real restarts only.
func TestRestartsAccumulate(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	backingOff := func(invocation string, n uint32) units.State {
		u := unit("a", "activating", "auto-restart", invocation, n)
		u.Result, u.ExecMainCode, u.ExecMainStatus = "signal", 2, 9
		return u
	}
	killed := unit("a", "failed", "failed", "9", 1)
	killed.Result = "signal"
	limited := unit("a", "failed", "failed", "9", 2)
	limited.Result = "start-limit-hit"
	for i, step := range []struct {
		name               string
		unit               units.State
		restarts, failures uint64
	}{
		{"the first report only sets where the count stands", running("a", "1", 7), 0, 0},
		{"a failure", backingOff("1", 7), 0, 1},
		{"a failure reported twice", backingOff("1", 8), 0, 1},
		{"the start", unit("a", "activating", "start", "2", 8), 1, 1},
		{"running", running("a", "2", 8), 1, 1},
		{"the same again", running("a", "2", 8), 1, 1},
		{"ResetFailed", running("a", "2", 0), 1, 1},
		{"a failure after it", backingOff("2", 0), 1, 2},
		{"its restart counts", running("a", "3", 1), 2, 2},
		{"missed reports", running("a", "6", 4), 5, 2},
		{"an operator's restart", running("a", "7", 0), 5, 2},
		{"one that crashed while it started", backingOff("7", 1), 5, 3},
		{"and again", running("a", "9", 1), 6, 3},
		{"a start that an operator cancelled", killed, 6, 3},
		{"the next one", unit("a", "activating", "start", "9", 1), 6, 3},
		{"the start limit: counted by systemd, refused by it", limited, 6, 4},
	} {
		r.report(step.unit)
		w := r.pool.Snapshot().Workers[0]
		assert.Equal(t, step.restarts, w.RestartsTotal, "%d: %s", i, step.name)
		assert.Equal(t, step.failures, w.ConsecutiveFailures, "%d: %s", i, step.name)
	}
}

func TestLastExitOutlivesTheRestart(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	down := unit("a", "activating", "auto-restart", "1", 0)
	down.Result, down.ExecMainCode, down.ExecMainStatus = "signal", 2, 9
	r.report(running("a", "1", 0), down, running("a", "2", 1))
	exit := r.pool.Snapshot().Workers[0].LastExit
	require.NotNil(t, exit)
	assert.Equal(t, probes.Exit{Result: "signal", Code: "killed", Status: "SIGKILL"}, *exit)
}

func TestStartupLatency(t *testing.T) {
	began := time.Now()
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.report(unit("a", "activating", "start-pre", "1", 0), unit("a", "activating", "start", "1", 0))
	r.report(running("a", "1", 0))
	r.run(t)
	latency := r.awaitReady(t).Workers[0].StartupLatencyMS
	assert.Positive(t, latency)
	assert.LessOrEqual(t, latency, float64(time.Since(began).Microseconds())/1000)

	r.lose(t, func() { s.cut(t) })
	r.awaitReady(t)
	assert.InDelta(t, latency, r.pool.Snapshot().Workers[0].StartupLatencyMS, 0, "a new connection is not a new start")
}

func TestTransitionsOfARestart(t *testing.T) {
	s := fake(t, &appservertest.Server{})
	r := newRig(t, nil, named{"a", s.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	r.lose(t, func() { s.cut(t) },
		unit("a", "activating", "auto-restart", "1", 0), unit("a", "activating", "start", "2", 1))
	r.report(running("a", "2", 1))
	r.awaitReady(t)
	var reasons []probes.Reason
	for _, tr := range r.pool.Snapshot().Workers[0].Transitions {
		reasons = append(reasons, tr.Reason)
	}
	assert.Equal(t, []probes.Reason{
		probes.HandshakePending, probes.Ready,
		probes.HandshakeLost, probes.BackingOff, probes.Starting, probes.HandshakePending, probes.Ready,
	}, reasons)
}

// resets records calls of ResetFailed.
func resets(result error) (chan string, func(*workers.Settings)) {
	calls := make(chan string, 10)
	return calls, func(s *workers.Settings) {
		s.ResetAfter = 20 * time.Millisecond
		s.ResetFailed = func(ctx context.Context, unit string) error {
			select {
			case calls <- unit:
			case <-ctx.Done():
			}
			return result
		}
	}
}

func awaitCall(t *testing.T, calls <-chan string) string {
	t.Helper()
	select {
	case unit := <-calls:
		return unit
	case <-time.After(bound):
		require.Fail(t, "ResetFailed was not called")
		return ""
	}
}

func TestResetFailedAfterHealth(t *testing.T) {
	calls, settings := resets(nil)
	a, b := fake(t, &appservertest.Server{}), fake(t, &appservertest.Server{})
	r := newRig(t, settings, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.report(running("a", "1", 0)) // never restarted: nothing to reset, and its ResetAfter ends before that of b
	r.await(t, "a ready", aReady)

	down := unit("b", "activating", "auto-restart", "1", 0)
	down.Result = "signal"
	r.report(unit("b", "activating", "start", "1", 0), down, running("b", "2", 1))
	assert.Equal(t, units.Worker("b"), awaitCall(t, calls))
	w := r.awaitReady(t).Workers[1]
	assert.Zero(t, w.ConsecutiveFailures)
	assert.Equal(t, uint64(1), w.RestartsTotal, "the total never decreases")

	// systemd confirms. A later connection needs no reset; one after a crash does.
	r.report(running("b", "2", 0))
	b.awaitDial(t)
	b.cut(t)
	b.awaitDial(t)
	r.awaitReady(t)
	r.lose(t, func() { b.cut(t) }, running("b", "3", 1))
	assert.Equal(t, units.Worker("b"), awaitCall(t, calls))
	assert.Empty(t, calls)
}

func TestResetFailedRefused(t *testing.T) {
	calls, settings := resets(errors.New("systemd refuses"))
	r := newRig(t, settings, named{"a", fake(t, &appservertest.Server{}).path})
	r.run(t)
	r.report(running("a", "2", 1))
	awaitCall(t, calls)
	r.settled(t)
	assert.True(t, r.pool.Snapshot().Workers[0].Ready, "a worker needs no permission to be ready")
	for range 2 { // systemd may allow later what it has refused, while the worker is well
		awaitCall(t, calls)
	}
	r.settled(t)
	assert.Equal(t, 1, strings.Count(r.log.String(), "level=WARN msg=\"cannot reset the restart delay"), r.log)
}

// systemd can take seconds to answer; the end of a connection cannot wait for it.
func TestLossIsNoticedDuringAReset(t *testing.T) {
	called := make(chan struct{}, 100)
	ended := make(chan error, 100) // another connection may follow
	s := fake(t, &appservertest.Server{})
	r := newRig(t, func(settings *workers.Settings) {
		settings.ResetAfter, settings.HandshakeTimeout = time.Millisecond, time.Hour
		settings.ResetFailed = func(ctx context.Context, _ string) error {
			called <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
	}, named{"a", s.path})
	r.run(t)
	r.report(running("a", "2", 1))
	r.awaitReady(t)
	select {
	case <-called:
	case <-time.After(bound):
		require.Fail(t, "ResetFailed was not called")
	}
	r.settled(t)
	r.lose(t, func() { s.cut(t) }) // nothing else ends the call
	assert.ErrorIs(t, <-ended, context.Canceled, "and the call ends with the connection")
}
