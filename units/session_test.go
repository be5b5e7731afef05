package units

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units/unitstest"
)

// Changes of other units never reach us, so they cost nothing.
func TestRulesAreNarrow(t *testing.T) {
	bus := unitstest.Start(t)
	mine, other := bus.Systemd.Unit(Worker("mine")), bus.Systemd.Unit(Worker("other"))
	var got atomic.Int32
	last := make(chan struct{}, 10)
	s := &session{board: newBoard([]string{Worker("mine")}, newMetrics(nil, false)), others: func() []string { return nil },
		step: func() {}}
	var err error
	s.bus, err = connect(t.Context(), time.Minute, func(s *dbus.Signal) {
		got.Add(1)
		last <- struct{}{}
	})
	require.NoError(t, err)
	defer s.bus.close()
	require.NoError(t, s.begin(t.Context()))

	for range 1000 {
		other.Start("flapping")
	}
	mine.Set(unitstest.Properties{"StatusText": "x"})
	<-last
	<-last
	assert.EqualValues(t, 2, got.Load())
}

// A listener that never answers must not block a connection attempt.
func TestConnectIsBounded(t *testing.T) {
	silentBus(t)
	_, err := connect(t.Context(), 20*time.Millisecond, func(*dbus.Signal) {})
	require.Error(t, err)

	silent := silentBus(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		conn, err := silent.Accept()
		if assert.NoError(t, err) {
			_, _ = conn.Read(make([]byte, 1))  // the greeting
			t.Cleanup(func() { conn.Close() }) // it would be another error than the end of ctx
		}
	}()
	_, err = connect(ctx, time.Minute, func(*dbus.Signal) {})
	assert.EqualError(t, err, "cannot greet the system bus: "+errMute.Error())
}

// silentBus is a system bus to which one can connect, and which says nothing.
func silentBus(t *testing.T) net.Listener {
	t.Helper()
	path := t.TempDir() + "/bus"
	silent, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	return silent
}

func TestBackoff(t *testing.T) {
	var never, once backoff
	once.wasUp = true
	for range 20 {
		never.next(ErrNoBus)
		once.next(ErrNoBus)
	}
	assert.Equal(t, slowRetry, never.next(ErrNoBus))
	assert.Equal(t, lastRetry, once.next(ErrNoBus), "a bus that was there comes back")
	assert.Equal(t, lastRetry, never.next(errBusLost))
	assert.Equal(t, firstRetry, (&backoff{}).next(errBusLost))
}

// The loop can answer while the connection's goroutine is stuck.
func TestAliveNamesTheConnector(t *testing.T) {
	w := NewWatcher(Config{})
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
			w := NewWatcher(Config{})
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
		b.records[dbus.ObjectPath(unitPath("a.service"))].last.NextRestartAt = next
		s.expectStart()
		assert.Equal(t, next, s.expected)
		<-s.due.C
		assert.Equal(t, next.Add(wakeAfter), time.Now())
	})
}
