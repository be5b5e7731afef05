package workers

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/accounts"
	"codex-proxy/units"
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
