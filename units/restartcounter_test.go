package units

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRestartCounter(t *testing.T) {
	var c RestartCounter
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
		c.Observe(State{InvocationID: step.invocation, NRestarts: step.restarts})
		assert.Equal(t, step.want, c.Total, step.name)
	}
}

func TestLastEnd(t *testing.T) {
	_, ended := State{ActiveState: "active", SubState: "running", Result: "success"}.LastEnd()
	assert.False(t, ended)
	e, ended := State{ActiveState: "activating", SubState: "auto-restart", Result: "exit-code"}.LastEnd()
	assert.True(t, ended)
	assert.Equal(t, Exit{Result: "exit-code"}, e, "before its main process ran")
	e, ended = State{ActiveState: "failed", SubState: "failed", Result: "signal", ExecMainCode: 2, ExecMainStatus: 9}.LastEnd()
	assert.True(t, ended)
	assert.Equal(t, Exit{Result: "signal", Code: "killed", Status: "SIGKILL"}, e)
}
