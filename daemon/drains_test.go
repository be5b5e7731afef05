package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/workers/control"
)

func TestDrainAfterAHandOff(t *testing.T) {
	table := drainTable{gate: &gate{moved: true}}
	assert.ErrorIs(t, table.Drain(control.Drain{Workers: []string{"a"}}), control.ErrMoved)
}
