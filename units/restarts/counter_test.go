package restarts

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units"
)

func TestCounter(t *testing.T) {
	var c Counter
	for _, step := range []struct {
		name       string
		invocation string
		restarts   uint32
		want       uint64
	}{
		{"seen first after five restarts", "a", 5, 0},
		{"a further report", "a", 5, 0},
		{"it waits", "a", 5, 0},
		{"a restart", "b", 6, 1},
		{"two restarts between two reports", "d", 8, 3},
		{"the start limit refuses one", "d", 9, 3},
		{"reset-failed", "d", 0, 3},
		{"a restart after that", "e", 1, 4},
		{"an operator's start", "f", 0, 4},
		{"stopped", "", 0, 4},
	} {
		c.Observe(units.State{InvocationID: step.invocation, NRestarts: step.restarts})
		assert.Equal(t, step.want, c.Total, step.name)
	}
}
