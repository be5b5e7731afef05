package restarts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units"
)

// A delay is reset after a minute of readiness, once a run, and only if systemd has restarted the unit; a refused reset
// is repeated.
func TestResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, refusals, first := make(chan string, 9), make(chan string, 9), true
		busy := errors.New("systemd is busy")
		r := NewResets(time.Minute, func(_ context.Context, unit string) error {
			calls <- unit
			if !first {
				return nil
			}
			first = false
			return busy
		}, func(unit string, err error) {
			assert.Equal(t, busy, err)
			refusals <- unit
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		observe := func(unit, invocation string, restarts uint32, ready bool) {
			r.Observe(units.State{Unit: unit, InvocationID: invocation, NRestarts: restarts, StateChangedAt: time.Now()}, ready)
		}
		after := func(d time.Duration) (reset []string) {
			time.Sleep(d)
			synctest.Wait()
			for len(calls) > 0 {
				reset = append(reset, <-calls)
			}
			return reset
		}
		observe("a", "1", 2, true)
		observe("b", "1", 0, true)
		observe("c", "1", 3, true)
		assert.Empty(t, after(30*time.Second))
		observe("a", "1", 2, true) // a further report of the run
		observe("c", "1", 3, false)
		observe("d", "1", 1, true)
		assert.Empty(t, after(29*time.Second))
		assert.Equal(t, []string{"a"}, after(2*time.Second))
		assert.Equal(t, "a", <-refusals)
		assert.Equal(t, []string{"d"}, after(30*time.Second))
		assert.Equal(t, []string{"a"}, after(resetAgain))
		observe("a", "1", 2, true) // systemd announces no reset
		assert.Empty(t, after(time.Hour), "b was never restarted, c is down, a and d are reset")
		r.Observe(units.State{Unit: "e", NRestarts: 1, StateChangedAt: time.Now().Add(time.Hour)}, true)
		assert.Equal(t, []string{"e"}, after(time.Minute), "the clock was set back since its start")
		observe("a", "1", 1, false)
		observe("a", "2", 1, true)
		observe("d", "1", 0, true)
		assert.Equal(t, []string{"a"}, after(time.Hour), "the next run")
		assert.Empty(t, refusals)
		cancel()
		assert.NoError(t, <-done)
	})
}

// A unit that starts again while systemd resets its delay has another one.
func TestResetsOfARunThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Resets
		calls := 0
		run := func(invocation string) {
			r.Observe(units.State{Unit: "a", InvocationID: invocation, NRestarts: 1, StateChangedAt: time.Now()}, true)
		}
		r = NewResets(time.Minute, func(context.Context, string) error {
			if calls++; calls == 1 {
				run("2")
			}
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		run("1")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, calls)
		cancel()
		assert.NoError(t, <-done)
	})
}
