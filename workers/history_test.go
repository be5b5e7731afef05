package workers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units"
	"codex-proxy/workers/dispatch"
)

// crash reports one crash and the restart after it.
func (r *rig) crash(invocation string, restarts uint32) {
	down := unit("a", "activating", "auto-restart", invocation, restarts)
	down.Result, down.ExecMainCode, down.ExecMainStatus = "exit-code", 1, 3
	r.report(down, unit("a", "activating", "start", invocation+"+", restarts+1))
}

func (r *rig) giveUp(restarts uint32) {
	limited := unit("a", "failed", "failed", "z", restarts)
	limited.Result, limited.ExecMainCode, limited.ExecMainStatus = "exit-code", 1, 3
	limited.LeftInactiveAt = time.Unix(int64(restarts), 0) // to wait for the start that was refused
	r.report(limited)
}

// The third restart in a row is a warning and the start limit an error, each
// with its reason and its remedy, and each once an outage, whatever the bus does.
func TestOutageIsLoggedOnce(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	count := func(level, text string) int {
		n := 0
		for l := range strings.Lines(r.log.String()) {
			if strings.Contains(l, "level="+level) && strings.Contains(l, text) &&
				strings.Contains(l, "remedy=") && strings.Contains(l, "status 3 (exit-code)") {
				n++
			}
		}
		return n
	}
	const loop, limit = "worker keeps failing", "worker is given up"
	r.report(running("a", "1", 0))
	r.crash("1", 0)
	r.crash("2", 1)
	assert.Zero(t, count("WARN", loop))
	r.crash("3", 2)
	assert.Equal(t, 1, count("WARN", loop))
	r.crash("4", 3)
	assert.Zero(t, count("ERROR", limit))
	r.giveUp(5)
	for range 3 { // a bus that comes and goes repeats its reports
		r.pool.BusChanged(false, nil)
		r.giveUp(5)
	}
	assert.Equal(t, 1, count("WARN", loop))
	assert.Equal(t, 1, count("ERROR", limit))

	// An operator's start that fails again is a new end, not a new outage.
	r.report(unit("a", "activating", "start", "5", 0))
	r.crash("5", 0)
	r.giveUp(1)
	assert.Equal(t, 1, count("WARN", loop))
	assert.Equal(t, 2, count("ERROR", limit))
}

// Every kill for lack of memory is logged once, however often systemd reports it, and
// counted across a reload.
func TestOutOfMemory(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	oom := func(invocation string, restarts uint32, at int64) units.State {
		u := unit("a", "activating", "auto-restart", invocation, restarts)
		u.Result, u.StatusErrno, u.ExecMainCode, u.ExecMainStatus = "signal", 12, 2, 9
		u.ExecMainExitAt = time.Unix(at, 0)
		return u
	}
	logged := func() int { return strings.Count(r.log.String(), "worker was killed: out of memory") }
	first := oom("1", 0, 7)
	r.report(first) // before this process began
	assert.Zero(t, r.pool.Snapshot().Workers[0].OOMKillsTotal)
	r.report(running("a", "2", 1), oom("2", 1, 8), oom("2", 1, 8))
	assert.Equal(t, uint64(1), r.pool.Snapshot().Workers[0].OOMKillsTotal)
	assert.Equal(t, "killed by SIGKILL (oom-kill)", r.pool.Snapshot().Workers[0].LastExit.String())
	assert.Equal(t, 1, logged())
	assert.Contains(t, r.log.String(), "systemctl set-property codex-worker@a.service MemoryMax=SIZE")

	killed := oom("3", 2, 9)
	killed.StatusErrno = 0
	r.report(running("a", "3", 2), killed, running("a", "4", 3))
	assert.Equal(t, 1, logged(), "a SIGKILL for another reason")
	byName := oom("4", 3, 10) // with OOMPolicy=stop
	byName.Result, byName.StatusErrno = "oom-kill", 0
	r.report(byName)
	assert.Equal(t, 2, logged())

	after := newRig(t, nil, named{"a", "/nowhere"})
	after.pool.Restore(r.pool.Save())
	assert.Equal(t, uint64(2), after.pool.Snapshot().Workers[0].OOMKillsTotal)
	assert.NotContains(t, after.log.String(), "out of memory")
}

// The last report of a unit that is down still describes it when the bus is lost; a
// unit that was up may have been restarted meanwhile.
func TestReasonWithoutTheBus(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	r.report(running("a", "1", 0))
	r.giveUp(5)
	r.pool.BusChanged(false, nil)
	assert.Equal(t, "start_limit_hit", string(r.pool.Snapshot().Workers[0].Reason))
	r.report(unit("a", "activating", "auto-restart", "2", 1))
	r.pool.BusChanged(false, nil)
	assert.Equal(t, "backing_off", string(r.pool.Snapshot().Workers[0].Reason))
	r.report(running("a", "3", 0))
	r.pool.BusChanged(false, units.ErrNoBus)
	assert.Equal(t, "handshake_pending", string(r.pool.Snapshot().Workers[0].Reason))
	_, err := r.pool.Pick("demo")
	assert.ErrorIs(t, err, dispatch.ErrNotReady)
}
