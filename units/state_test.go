package units

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStateInWords(t *testing.T) {
	for _, c := range []struct {
		active, sub string
		up, failed  bool
	}{
		{"active", "running", true, false},
		{"reloading", "reload-notify", true, false},
		{"activating", "start", false, false},
		{"activating", "auto-restart", false, false},
		{"failed", "failed-before-auto-restart", false, false},
		{"failed", "failed", false, true},
		{"inactive", "dead", false, false},
		{"inactive", "dead-before-auto-restart", false, false},
	} {
		s := State{ActiveState: c.active, SubState: c.sub}
		assert.Equal(t, c.up, s.Active(), "%s/%s is active", c.active, c.sub)
		assert.Equal(t, c.failed, s.Failed(), "%s/%s is failed", c.active, c.sub)
	}
}

func TestLastExit(t *testing.T) {
	_, ok := State{}.LastExit()
	assert.False(t, ok, "a running process has no exit")
	for _, c := range []struct {
		result       string
		code, status int32
		want         string
	}{
		{"exit-code", 1, 3, "exited with status 3"},
		{"success", 1, 0, "exited with status 0"},
		{"signal", 2, 9, "killed by SIGKILL"},
		{"oom-kill", 2, 9, "killed by SIGKILL (oom-kill)"},
		{"core-dump", 3, 6, "dumped core on SIGABRT"},
		{"watchdog", 3, 6, "dumped core on SIGABRT (watchdog)"},
		{"signal", 2, 34, "killed by signal 34"},
	} {
		e, ok := State{Result: c.result, ExecMainCode: c.code, ExecMainStatus: c.status}.LastExit()
		assert.True(t, ok)
		assert.Equal(t, c.want, e.String())
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

// With OOMPolicy=continue systemd's Result is signal; the shim's errno has the cause.
func TestLastExitOutOfMemory(t *testing.T) {
	killed := State{Result: "signal", ExecMainCode: 2, ExecMainStatus: 9, StatusErrno: 12}
	exited := func(s *State) { s.Result, s.ExecMainCode, s.ExecMainStatus = "exit-code", 1, 9 }
	for what, c := range map[string]struct {
		change func(*State)
		want   string
	}{
		"out of memory":           {func(*State) {}, "killed by SIGKILL (oom-kill)"},
		"killed by hand":          {func(s *State) { s.StatusErrno = 0 }, "killed by SIGKILL"},
		"killed by the watchdog":  {func(s *State) { s.Result = "watchdog" }, "killed by SIGKILL (watchdog)"},
		"another signal":          {func(s *State) { s.ExecMainStatus = 15 }, "killed by SIGTERM"},
		"another program's errno": {exited, "exited with status 9"},
	} {
		s := killed
		c.change(&s)
		e, ok := s.LastExit()
		assert.True(t, ok, what)
		assert.Equal(t, c.want, e.String(), what)
	}
}

func TestStartLimited(t *testing.T) {
	at := func(sec int64) time.Time { return time.Unix(sec, 0) }
	for what, c := range map[string]struct {
		state   State
		limited bool
	}{
		"may not be restarted":      {State{LeftInactiveAt: at(1), ExecMainExitAt: at(2)}, false},
		"main process never ran":    {State{NRestarts: 14, LeftInactiveAt: at(3)}, true},
		"after a crash loop":        {State{NRestarts: 14, ExecMainExitAt: at(2), LeftInactiveAt: at(3)}, true},
		"killed while it stopped":   {State{NRestarts: 1, LeftInactiveAt: at(1), ExecMainExitAt: at(2)}, false},
		"too many explicit starts":  {State{Result: "start-limit-hit", LeftInactiveAt: at(1), ExecMainExitAt: at(2)}, true},
		"waits for its restart":     {State{ActiveState: "activating", SubState: "auto-restart", NRestarts: 1}, false},
		"systemd has yet to decide": {State{SubState: "failed-before-auto-restart", NRestarts: 1}, false},
	} {
		s := c.state
		s.ActiveState, s.SubState = cmp.Or(s.ActiveState, "failed"), cmp.Or(s.SubState, "failed")
		s.Result = cmp.Or(s.Result, "exit-code")
		assert.Equal(t, c.limited, s.StartLimited(), what)
	}
}
