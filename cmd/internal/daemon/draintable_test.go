package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/control"
)

func TestDrainAfterAHandOff(t *testing.T) {
	d := &Daemon{}
	d.keyTable.moved = true
	assert.ErrorIs(t, drainTable{d}.Drain(control.Drain{Workers: []string{"a"}}), control.ErrMoved)
}
