package probes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRecoverable(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  bool
	}{
		"state unknown":        {Facts{}, true},
		"waiting to restart":   {unit("activating", "auto-restart"), true},
		"exited, will restart": {unit("failed", "failed-before-auto-restart"), true},
		"connection lost":      {with(unit("active", "running"), Facts{Lost: true}), true},
		"being stopped":        {unit("deactivating", "stop-sigterm"), true},
		"drained for its stop": {drained(unit("active", "running")), true},
		"drained by operator":  {Facts{ActiveState: "active", Draining: true, Drained: true}, false},
		"no models":            {with(unit("active", "running"), Facts{Handshake: true}), false},
		"a standby":            {standby(unit("inactive", "dead")), true},
		"stopped":              {unit("inactive", "dead"), false},
		"about to start":       {Facts{ActiveState: "inactive", SubState: "dead", JobPending: true}, true},
		"failed in its stop":   {queued(unit("failed", "failed")), true},
		"failed for good":      {unit("failed", "failed"), false},
		"start limit":          {limited(unit("failed", "failed")), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Recoverable(tc.facts)) })
	}
}
