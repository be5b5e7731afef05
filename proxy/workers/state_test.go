package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units"
)

// Connecting to the socket of a worker that is down starts it, so only what
// systemd calls active at this moment may be dialled.
func TestMayDial(t *testing.T) {
	for _, active := range []string{"", "active", "reloading", "refreshing", "inactive", "activating", "deactivating", "failed", "maintenance"} {
		u := units.State{Unit: units.Worker("a"), ActiveState: active}
		runs := active == "active" || active == "reloading" || active == "refreshing"

		var s state
		assert.False(t, s.mayDial(), "systemd has not been heard")
		s.heard(u, time.Now())
		assert.False(t, s.mayDial(), "the bus is still being read")
		s.heardBus(busCurrent)
		assert.Equal(t, runs, s.mayDial(), "%q", active)
		s.heard(u, time.Now())
		assert.Equal(t, runs, s.mayDial(), "%q", active)
		for _, b := range []bus{busLost, busNone} { // no bus where one has been heard is a bus lost
			s.heardBus(b)
			assert.False(t, s.mayDial(), "%q is an old word", active)
			s.heard(u, time.Now())
			assert.False(t, s.mayDial(), "%q may be old once the bus has failed again", active)
		}
		s.heardBus(busCurrent)
		assert.Equal(t, runs, s.mayDial(), "%q", active)
	}
	var alone state
	alone.heardBus(busNone)
	assert.True(t, alone.mayDial(), "where there is no systemd nobody can be woken")
	alone.heard(units.State{Unit: units.Worker("a"), ActiveState: "inactive"}, time.Now())
	assert.False(t, alone.mayDial(), "there is one now")
}

// Two silences with a sign of life between them are those of a codex that works, and
// what it decodes for another process makes it silent, too.
func TestSilenceThatEndsIsNoWedge(t *testing.T) {
	s, now := state{}, time.Now()
	at := func(second int) time.Time { return now.Add(time.Duration(second) * time.Second) }
	assert.False(t, s.examined(true, at(10), at(9), time.Second))
	assert.False(t, s.examined(true, at(20), at(15), time.Second), "it answered at 15")
	s.elsewhere.Decoding = 1
	assert.False(t, s.examined(true, at(30), at(15), time.Second))
	s.elsewhere.Decoding = 0
	assert.False(t, s.examined(true, at(40), at(15), time.Second))
	assert.True(t, s.examined(true, at(50), at(15), time.Second))
}
