package watch

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/bus"
	"codex-proxy/units/unitstest"
)

// Changes of other units never reach us, so they cost nothing.
func TestRulesAreNarrow(t *testing.T) {
	fake := unitstest.Start(t)
	mine, other := fake.Systemd.Unit(units.Worker("mine")), fake.Systemd.Unit(units.Worker("other"))
	var got atomic.Int32
	last := make(chan struct{}, 10)
	s := &session{board: newBoard([]string{units.Worker("mine")}, newMetrics(nil, false)),
		others: func() []string { return nil }, step: func() {}}
	var err error
	s.bus, err = bus.Connect(t.Context(), time.Minute, func(s *dbus.Signal) {
		got.Add(1)
		last <- struct{}{}
	})
	require.NoError(t, err)
	defer s.bus.Close()
	require.NoError(t, s.begin(t.Context()))

	for range 1000 {
		other.Start("flapping")
	}
	mine.Set(unitstest.Properties{"StatusText": "x"})
	<-last
	<-last
	assert.EqualValues(t, 2, got.Load())
}

func TestBackoff(t *testing.T) {
	var never, once backoff
	once.wasUp = true
	for range 20 {
		never.next(bus.ErrNoBus)
		once.next(bus.ErrNoBus)
	}
	assert.Equal(t, slowRetry, never.next(bus.ErrNoBus))
	assert.Equal(t, lastRetry, once.next(bus.ErrNoBus), "a bus that was there comes back")
	assert.Equal(t, lastRetry, never.next(bus.ErrLost))
	assert.Equal(t, firstRetry, (&backoff{}).next(bus.ErrLost))
}

// The loop can answer while the connection's goroutine is stuck.
func TestAliveNamesTheConnector(t *testing.T) {
	w := New(Config{})
	w.step.Store(-int64(stepBound + time.Second))
	answered := make(chan struct{})
	go func() { defer close(answered); <-w.pings }()
	assert.ErrorContains(t, w.Alive(t.Context()), "the unit watcher's bus connection is stuck for")
	<-answered
	w.stepped()
	go func() { <-w.pings }()
	assert.NoError(t, w.Alive(t.Context()))
}

// A change of the clock does not affect the judgement of the connector.
func TestAliveOutlivesASetClock(t *testing.T) {
	for name, hours := range map[string]int{"forward": 1, "back": -1} {
		t.Run(name, func(t *testing.T) {
			w := New(Config{})
			w.stepped()
			w.began = setSince(w.began, hours)
			go func() { <-w.pings }()
			assert.NoError(t, w.Alive(t.Context()))
			w.stepped()
			go func() { <-w.pings }()
			assert.NoError(t, w.Alive(t.Context()))
		})
	}
}

// setSince is the same instant to a wall clock that has been set forward since. It
// changes the seconds of the time's wall clock, which have 33 bits (package time).
func setSince(at time.Time, hours int) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) -= uint64(hours*3600) << 30
	return at
}

// After the clock was set back, starts are still expected: those before were later.
func TestExpectedStartAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard([]string{"a.service"}, nil)
		s := &session{board: b, due: time.NewTimer(math.MaxInt64), woken: time.Now().Add(24 * time.Hour)}
		defer s.due.Stop()
		next := time.Now().Add(time.Second)
		b.records[bus.UnitPath("a.service")].last.NextRestartAt = next
		s.expectStart()
		assert.Equal(t, next, s.expected)
		<-s.due.C
		assert.Equal(t, next.Add(wakeAfter), time.Now())
	})
}
