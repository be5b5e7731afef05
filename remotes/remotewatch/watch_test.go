package remotewatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/remotes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// rig is a watch of remotes whose managers and units the test plays.
type rig struct {
	*Watch
	names   []string
	listErr error
	changes atomic.Int64
	log     bytes.Buffer

	mu    sync.Mutex
	says  map[string]remotes.Status
	err   error
	asked map[string]int
	reset chan string // units
}

func newRig(names ...string) *rig {
	r := &rig{names: names, says: map[string]remotes.Status{}, asked: map[string]int{}, reset: make(chan string, 9)}
	r.Watch = New(Settings{
		Names: func() ([]string, error) { return r.names, r.listErr },
		Ask: func(_ context.Context, name string) (remotes.Status, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asked[name]++
			return r.says[name], r.err
		},
		Resets: restarts.NewResets(time.Minute, func(_ context.Context, unit string) error {
			r.reset <- unit
			return nil
		}, nil),
		OnChange: func() { r.changes.Add(1) }, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	r.Units()
	return r
}

// questions counts those to a remote.
func (r *rig) questions(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[name]
}

// run runs the watch while test does.
func (r *rig) run(t *testing.T, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	test()
	cancel()
	assert.NoError(t, <-ended)
}

func (r *rig) become(name, active, sub string) {
	r.UnitChanged(units.State{Unit: units.Remote(name), ActiveState: active, SubState: sub, Result: "success",
		StateChangedAt: time.Now()})
}

func (r *rig) one(t *testing.T, name string) probes.Remote {
	t.Helper()
	for _, remote := range r.Report() {
		if remote.Name == name {
			return remote
		}
	}
	require.Fail(t, "no remote "+name)
	return probes.Remote{}
}

// A remote that runs is asked, as soon as it does and then again and again; one that does not run never is.
func TestAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a", "b")
		began := time.Now()
		r.says["a"] = remotes.Status{
			Attached: []remotes.Client{{User: "alice"}, {User: "bob", Viewer: true}},
			Turns: []remotes.Turn{{Since: began.Add(time.Minute), AloneSince: began.Add(3 * time.Minute)},
				{Since: began, WaitingSince: began.Add(2 * time.Minute)}, {Since: began.Add(-time.Hour), Cut: true}},
			Account: "second", Continued: 4, GivenUp: 1, Switches: 2, Unknown: []string{"x/list"},
			Ends: remotes.Ends{Turns: 9, Faults: 1, Fault: "no such table"},
		}
		r.run(t, func() {
			assert.Empty(t, r.Report(), "systemd has reported nothing")
			r.become("a", "active", "running")
			r.become("b", "inactive", "dead")
			synctest.Wait()
			assert.Equal(t, &probes.RemoteUse{At: began, Owners: 1, Viewers: 1, Turns: 2, TurnSince: began,
				AloneSince: began.Add(3 * time.Minute), Account: "second", Continued: 4, GivenUp: 1, Switches: 2,
				Unknown: []string{"x/list"}, Ended: 9, Failed: 1, Fault: "no such table"}, r.one(t, "a").Use)
			assert.Nil(t, r.one(t, "b").Use)
			time.Sleep(period)
			synctest.Wait()
			assert.GreaterOrEqual(t, r.questions("a"), 2)

			r.become("a", "inactive", "dead")
			assert.Equal(t, &probes.RemoteUse{At: began.Add(period), Account: "second", Continued: 4, GivenUp: 1, Switches: 2},
				r.one(t, "a").Use, "its counts stay")
			synctest.Wait()
			before := r.questions("a")
			time.Sleep(3 * period)
			synctest.Wait()
			assert.Equal(t, before, r.questions("a"), "a question would start it")
			assert.Zero(t, r.questions("b"))
		})
		assert.EqualValues(t, 4, r.changes.Load(), "three states, and the first answer")
	})
}

// While someone watches, the remotes are asked each second, and an answer that differs is a change.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a")
		r.run(t, func() {
			r.become("a", "active", "running")
			synctest.Wait()
			end := r.Watched()
			synctest.Wait()
			asked, changes := r.questions("a"), r.changes.Load()
			time.Sleep(3 * watchedPeriod)
			synctest.Wait()
			assert.Equal(t, asked+3, r.questions("a"))
			assert.Equal(t, changes, r.changes.Load(), "the answer is the same")
			end()
			time.Sleep(watchedPeriod)
			synctest.Wait()
			asked = r.questions("a")
			time.Sleep(period - watchedPeriod)
			synctest.Wait()
			assert.LessOrEqual(t, r.questions("a"), asked+1)
		})
	})
}

// A remote that is about to stop by itself is not asked until that is over.
func TestDoesNotWakeWhatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a")
		r.says["a"] = remotes.Status{RestsAt: time.Now().Add(period)}
		r.run(t, func() {
			r.become("a", "active", "running")
			synctest.Wait()
			require.Equal(t, 1, r.questions("a"))
			time.Sleep(period + restAfter - time.Second)
			synctest.Wait()
			assert.Equal(t, 1, r.questions("a"))
			time.Sleep(period)
			synctest.Wait()
			assert.Equal(t, 2, r.questions("a"), "somebody had come")
		})
	})
}

// A remote that does not answer keeps what it said last, and is one line in the journal until it answers again.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a")
		r.says["a"] = remotes.Status{Continued: 1}
		r.run(t, func() {
			r.become("a", "active", "running")
			synctest.Wait()
			r.mu.Lock()
			r.err = errors.New("permission denied")
			r.mu.Unlock()
			time.Sleep(3 * period)
			synctest.Wait()
			assert.Equal(t, 1, r.one(t, "a").Use.Continued)
			assert.Equal(t, 1, strings.Count(r.log.String(), "cannot read the status of a remote"))
		})
	})
}

// The restart delay is reset of a remote that has been ready for the time, once a run.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a", "b", "c")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.settings.Resets.Run(ctx) }()
		report := func(unit, active, sub, invocation string, restarts uint32) {
			r.UnitChanged(units.State{Unit: unit, ActiveState: active, SubState: sub, Result: "success",
				InvocationID: invocation, NRestarts: restarts, StateChangedAt: time.Now()})
		}
		after := func(d time.Duration) (reset []string) {
			time.Sleep(d)
			synctest.Wait()
			for len(r.reset) > 0 {
				reset = append(reset, <-r.reset)
			}
			return reset
		}
		a := units.Remote("a")
		report(a, "activating", "start-pre", "1", 2)
		report(units.Remote("b"), "active", "running", "1", 0)
		report(units.Remote("c"), "activating", "auto-restart", "1", 4)
		report(units.Remote("other"), "active", "running", "1", 4)
		assert.Empty(t, after(time.Hour), "a starts, b was never restarted, c waits, and other has no file")
		report(a, "active", "running", "1", 2)
		assert.Empty(t, after(59*time.Second))
		assert.Equal(t, []string{a}, after(2*time.Second))
		assert.Empty(t, after(time.Hour), "once a run")
		report(a, "activating", "auto-restart", "1", 1)
		report(a, "active", "running", "2", 1)
		assert.Equal(t, []string{a}, after(time.Hour), "the next run")
		cancel()
		assert.NoError(t, <-ended)
	})
}

// What is to run and does not is counted, by systemd's states alone; a remote that sleeps is not down.
func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a")
		for _, step := range []struct {
			active, sub string
			total       time.Duration // after a second of the state
		}{
			{"inactive", "dead", 0}, {"activating", "start", time.Second}, {"active", "running", time.Second},
			{"activating", "auto-restart", 2 * time.Second}, {"active", "running", 2 * time.Second},
			{"deactivating", "stop-sigterm", 2 * time.Second}, {"failed", "failed", 3 * time.Second},
		} {
			r.become("a", step.active, step.sub)
			time.Sleep(time.Second)
			assert.Equal(t, step.total, r.one(t, "a").NotReady, step)
		}
		assert.Equal(t, probes.RemoteFailed, r.one(t, "a").Reason)
	})
}

// Remotes come and go with their files. A list that cannot be read changes nothing.
func TestNames(t *testing.T) {
	r := newRig("b")
	r.names = []string{"a", "b"}
	assert.Equal(t, []string{units.Remote("a"), units.Remote("b")}, r.Units())
	r.become("a", "inactive", "dead")
	r.become("b", "inactive", "dead")
	r.become("c", "inactive", "dead")
	require.Len(t, r.Report(), 2)
	assert.Equal(t, "a", r.Report()[0].Name)
	r.names, r.listErr = nil, errors.New("permission denied")
	for range 2 {
		assert.Equal(t, []string{units.Remote("a"), units.Remote("b")}, r.Units())
	}
	assert.Equal(t, 1, strings.Count(r.log.String(), "the remotes cannot be listed"))
	r.names, r.listErr = []string{"b"}, nil
	assert.Equal(t, []string{units.Remote("b")}, r.Units())
	require.Len(t, r.Report(), 1)
}

// A reload passes on what systemd and a remote that sleeps do not say again.
func TestReload(t *testing.T) {
	before := newRig("a", "b")
	for _, invocation := range []string{"1", "2"} {
		before.UnitChanged(units.State{Unit: units.Remote("a"), ActiveState: "active", InvocationID: invocation, NRestarts: 1})
	}
	before.answered("a", remotes.Status{Attached: []remotes.Client{{User: "x"}}, Continued: 3}, nil, time.Now())
	saved := before.Save()
	require.Len(t, saved, 1)
	require.EqualValues(t, 1, saved["a"].Restarts)

	for _, early := range []bool{true, false} { // systemd reports the unit before the hand-off, or after it
		after := newRig("a", "b")
		state := units.State{Unit: units.Remote("a"), ActiveState: "inactive", SubState: "dead", InvocationID: "2", NRestarts: 1}
		if early {
			after.UnitChanged(state)
		}
		after.Restore(saved)
		if !early {
			after.UnitChanged(state)
		}
		a := after.one(t, "a")
		assert.EqualValues(t, 1, a.RestartsTotal)
		assert.Equal(t, 3, a.Use.Continued)
		assert.Zero(t, a.Use.Owners, "nobody is attached to what sleeps")
	}
}
