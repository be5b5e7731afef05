package operators

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/daemon/reload"
	"codex-proxy/workers/control"
)

func TestDrainAfterAHandOff(t *testing.T) {
	table := DrainTable{lock: moved()}
	assert.ErrorIs(t, table.Drain(control.Drain{Workers: []string{"a"}}), control.ErrMoved)
}

// moved is the lock of a process whose successor takes the changes.
func moved() *reload.ChangeLock {
	lock := &reload.ChangeLock{}
	_, _ = lock.HandOff(func() (bool, error) { return true, nil })
	return lock
}
