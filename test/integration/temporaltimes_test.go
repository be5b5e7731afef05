package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quickProbe finds a hang after 1.5 s; the preset's interval is longer.
const (
	quickProbe    = "interval = \"500ms\"\ntimeout = \"400ms\"\n"
	quickWatchdog = 1500 * time.Millisecond
)

// Starts, restarts and stops of the real Temporal with a database file. A start is compared with the time that Temporal
// takes itself, without systemd, in the same minute.
func TestTemporalTimes(t *testing.T) { bothSuitesInTurn(t, testTemporalTimes) }

func testTemporalTimes(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	s.coldStarts()
	s.start()
	s.startsOfARunning()
	s.kills("without a proxy")
	s.bed.start()
	s.kills("with a proxy, which wakes systemd in time")
	s.hang()
	var stops sample
	for range 3 {
		stops = append(stops, s.stop())
		s.start()
	}
	t.Logf("stop: %s; target: at most 2 s", stops)
	assert.Less(t, stops.best(), slowest*2*time.Second)
}

func (s temporal) coldStarts() {
	var own, cold, warm sample
	for range 5 {
		serving, stop := s.byHand("127.0.0.1:17233", "/var/tmp/by-hand.db")
		stop()
		own = append(own, serving)
		cold = append(cold, s.start())
		s.untilServing(temporalAddr)
		s.stop()
		warm = append(warm, s.start())
		s.stop()
		s.erase()
		s.MustRun(s.t, "sh", "-c", "rm /var/tmp/by-hand.db*")
	}
	s.t.Logf("to READY with a new database: %s; with one that exists: %s; Temporal itself to SERVING with a new one: "+
		"%s; target: the first is at most 150 ms longer than the last", cold, warm, own)
	assert.Less(s.t, cold.best()-own.best(), slowest*150*time.Millisecond)
}

// A start of what runs does nothing.
func (s temporal) startsOfARunning() {
	before := s.show(s.unit, "InvocationID", "NRestarts", "MainPID")
	processes, err := s.Processes(s.unit)
	require.NoError(s.t, err)
	var starts sample
	for range 10 {
		starts = append(starts, s.start())
	}
	s.t.Logf("start of a running one: %s; target: at most 30 ms", starts)
	assert.Less(s.t, starts.best(), slowest*30*time.Millisecond)
	now, err := s.Processes(s.unit)
	require.NoError(s.t, err)
	assert.Equal(s.t, processes, now)
	assert.Equal(s.t, before, s.show(s.unit, "InvocationID", "NRestarts", "MainPID"))
}

func (s temporal) kills(how string) {
	var again sample
	for range 7 {
		again = append(again, s.killed())
	}
	s.untilServing(temporalAddr)
	s.t.Logf("kill -9 to READY again, %s: %s; target: a median of at most 600 ms", how, again)
	assert.Less(s.t, again.best(), slowest*600*time.Millisecond)
}

// A stopped process has a port that still accepts; the probe finds it.
func (s temporal) hang() {
	preset, err := s.ReadFile(s.file)
	require.NoError(s.t, err)
	s.write(string(preset) + quickProbe)
	s.systemctl("restart")
	s.MustRun(s.t, "systemctl", "reset-failed", s.unit)
	run := s.run()
	at := clock()
	s.stopServer(s.server(), temporalAddr)
	again := s.readyAgain(run) - at
	s.untilServing(temporalAddr)
	s.t.Logf("SIGSTOP to READY again: %s; target: at most 600 ms beyond WatchdogSec=%s", again, quickWatchdog)
	assert.Less(s.t, again, quickWatchdog+slowest*600*time.Millisecond)
	assert.Contains(s.t, s.journal(s.unit), "watchdog")
}
