package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units"
)

// Connecting to the socket of a worker that is down starts it, so only what
// systemd reports active at this moment may be dialled.
func TestMayDial(t *testing.T) {
	for _, active := range []string{
		"", "active", "reloading", "refreshing", "inactive", "activating", "deactivating", "failed", "maintenance",
	} {
		u := units.State{Unit: units.Worker("a"), ActiveState: active}
		runs := active == "active" || active == "reloading" || active == "refreshing"

		var s state
		assert.False(t, s.mayDial(), "systemd has reported nothing")
		s.setUnit(u, time.Now())
		assert.False(t, s.mayDial(), "the bus is still being read")
		s.setBus(busCurrent)
		assert.Equal(t, runs, s.mayDial(), "%q", active)
		s.setUnit(u, time.Now())
		assert.Equal(t, runs, s.mayDial(), "%q", active)
		for _, b := range []bus{busLost, busNone} { // no bus after a report is a bus lost
			s.setBus(b)
			assert.False(t, s.mayDial(), "%q is an old report", active)
			s.setUnit(u, time.Now())
			assert.False(t, s.mayDial(), "%q may be old once the bus has failed again", active)
		}
		s.setBus(busCurrent)
		assert.Equal(t, runs, s.mayDial(), "%q", active)
	}
	var alone state
	alone.setBus(busNone)
	assert.True(t, alone.mayDial(), "without systemd a connection starts nothing")
	alone.setUnit(units.State{Unit: units.Worker("a"), ActiveState: "inactive"}, time.Now())
	assert.False(t, alone.mayDial(), "there is a bus now")
}

// A codex that gives a sign of life between two silences works, and one that decodes
// images for another process is silent, too.
func TestSilenceThatEndsIsNoWedge(t *testing.T) {
	s, now := state{}, time.Now()
	at := func(second int) time.Time { return now.Add(time.Duration(second) * time.Second) }
	assert.False(t, s.examined(true, at(10), at(9), time.Second))
	assert.False(t, s.examined(true, at(20), at(15), time.Second), "it answered at 15")
	s.peers.Decoding = 1
	assert.False(t, s.examined(true, at(30), at(15), time.Second))
	s.peers.Decoding = 0
	assert.False(t, s.examined(true, at(40), at(15), time.Second))
	assert.True(t, s.examined(true, at(50), at(15), time.Second))
}
