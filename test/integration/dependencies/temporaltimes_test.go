package dependencies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// quickProbe finds a hang after 1.5 s; the preset's interval is longer.
const (
	quickProbe    = "interval = \"500ms\"\ntimeout = \"400ms\"\n"
	quickWatchdog = 1500 * time.Millisecond
)

// Starts, restarts and stops of the real Temporal with a database file. A start is compared with the time that Temporal
// takes itself, without systemd, in the same minute.
func TestTemporalTimes(t *testing.T) { bed.EitherSuite(t, testTemporalTimes) }

func testTemporalTimes(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	s.coldStarts()
	s.Start()
	s.startsOfARunning()
	s.kills("without a proxy")
	s.Bed.Start()
	s.kills("with a proxy, which wakes systemd in time")
	s.hang()
	var stops bed.Sample
	for range 3 {
		stops = append(stops, stopDependency(s.Dependency))
		s.Start()
	}
	t.Logf("stop: %s; target: at most 2 s", stops)
	assert.Less(t, stops.Best(), bed.Slowest*2*time.Second)
	s.partsApart()
}

// A server with another --ip is SERVING and describes its namespace, and its parts do not find each other.
func (s temporal) partsApart() {
	preset, err := s.ReadFile(s.File)
	require.NoError(s.T, err)
	stopDependency(s.Dependency)
	s.Write(strings.NewReplacer("127.0.0.1:7233", "127.0.0.2:7233", `"--ip", "127.0.0.1"`, `"--ip", "127.0.0.2"`).
		Replace(string(preset)))
	s.MustRun(s.T, "systemctl", "start", "--no-block", s.Unit)
	s.UntilShown(s.Unit, func(v map[string]string) bool {
		return strings.Contains(v["StatusText"], `no workflow can start in namespace "default": `)
	}, "StatusText")
	assert.Equal(s.T, "activating", s.Properties(s.Unit, "ActiveState")["ActiveState"])
	s.MustRun(s.T, "systemctl", "stop", s.Unit)
}

func (s temporal) coldStarts() {
	var own, cold, warm bed.Sample
	for range nightly.Or(5, 3) {
		serving, stop := s.byHand("127.0.0.1:17233", "/var/tmp/by-hand.db")
		stop()
		own = append(own, serving)
		cold = append(cold, s.Start())
		s.untilServing(temporalAddr)
		stopDependency(s.Dependency)
		warm = append(warm, s.Start())
		stopDependency(s.Dependency)
		s.erase()
		s.MustRun(s.T, "sh", "-c", "rm /var/tmp/by-hand.db*")
	}
	s.T.Logf("to READY with a new database: %s; with one that exists: %s; Temporal itself to SERVING with a new one: "+
		"%s; target: the first is at most 150 ms longer than the last", cold, warm, own)
	assert.Less(s.T, cold.Best()-own.Best(), bed.Slowest*150*time.Millisecond)
}

// A start of what runs does nothing.
func (s temporal) startsOfARunning() {
	before := s.Properties(s.Unit, "InvocationID", "NRestarts", "MainPID")
	processes, err := s.Processes(s.Unit)
	require.NoError(s.T, err)
	var starts bed.Sample
	for range 10 {
		starts = append(starts, s.Start())
	}
	s.T.Logf("start of a running one: %s; target: at most 30 ms", starts)
	assert.Less(s.T, starts.Best(), bed.Slowest*30*time.Millisecond)
	now, err := s.Processes(s.Unit)
	require.NoError(s.T, err)
	assert.Equal(s.T, processes, now)
	assert.Equal(s.T, before, s.Properties(s.Unit, "InvocationID", "NRestarts", "MainPID"))
}

func (s temporal) kills(how string) {
	var again bed.Sample
	for range nightly.Or(7, 3) {
		again = append(again, s.killed())
	}
	s.untilServing(temporalAddr)
	s.T.Logf("kill -9 to READY again, %s: %s; target: a median of at most 600 ms", how, again)
	assert.Less(s.T, again.Best(), bed.Slowest*600*time.Millisecond)
}

// A stopped process has a port that still accepts; the probe finds it.
func (s temporal) hang() {
	preset, err := s.ReadFile(s.File)
	require.NoError(s.T, err)
	s.Write(string(preset) + quickProbe)
	s.Timed("restart")
	s.MustRun(s.T, "systemctl", "reset-failed", s.Unit)
	run := s.RunID()
	at := clock()
	stopServer(s.Dependency, serverProcess(s.Dependency), temporalAddr)
	again := s.ReadyAgain(run) - at
	s.untilServing(temporalAddr)
	s.T.Logf("SIGSTOP to READY again: %s; target: at most 600 ms beyond WatchdogSec=%s", again, quickWatchdog)
	assert.Less(s.T, again, quickWatchdog+bed.Slowest*600*time.Millisecond)
	assert.Contains(s.T, s.UnitJournal(s.Unit), "watchdog")
}
