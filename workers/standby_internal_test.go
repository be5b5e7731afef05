package workers

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
)

// A socket that did not listen once may listen again: the plan gets the worker back for
// another attempt, without an event of its unit.
func TestSocketIsTriedAgain(t *testing.T) {
	s := state{unitState: unitState{bus: busCurrent, unit: units.State{
		LoadState: "loaded", ActiveState: "inactive", SubState: "dead",
	}}}
	s.standby.role = Needed
	now := time.Now()
	s.standby.kicked(&net.OpError{Op: "dial", Err: syscall.ENOENT}, now)
	assert.Equal(t, accounts.Held, s.phase())
	s.standby.kickAfter = now
	assert.Equal(t, accounts.Cold, s.phase())
	assert.True(t, s.mayKick())
}

// A standby that is bound to a dependency is not started while that is not ready: its start
// would fail, and the connection in its socket would repeat it.
func TestBoundStandbyIsNotStartedWithoutItsDependency(t *testing.T) {
	s := state{unitState: unitState{bus: busCurrent, unit: units.State{
		LoadState: "loaded", ActiveState: "inactive", SubState: "dead",
	}}}
	s.standby.role = Needed
	s.unmet = Unmet{Names: []string{"db"}, Reason: probes.DependencyStopped, Bound: true}
	assert.False(t, s.mayKick())
	assert.Equal(t, probes.DependencyNotReady, s.reason())
	s.unmet.Bound = false
	assert.True(t, s.mayKick(), "with Wants= it starts all the same")
	s.unmet = Unmet{}
	assert.True(t, s.mayKick())
}
