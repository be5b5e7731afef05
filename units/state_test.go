package units

import (
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
		assert.Equal(t, c.failed, s.Failed(), "%s/%s has failed", c.active, c.sub)
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

// With OOMPolicy=continue systemd's Result is signal; the shim's errno says more.
func TestLastExitOutOfMemory(t *testing.T) {
	killed := State{Result: "signal", ExecMainCode: 2, ExecMainStatus: 9, StatusErrno: 12}
	for what, c := range map[string]struct {
		change func(*State)
		want   string
	}{
		"out of memory":              {func(*State) {}, "killed by SIGKILL (oom-kill)"},
		"killed by somebody":         {func(s *State) { s.StatusErrno = 0 }, "killed by SIGKILL"},
		"killed by the watchdog":     {func(s *State) { s.Result = "watchdog" }, "killed by SIGKILL (watchdog)"},
		"another signal":             {func(s *State) { s.ExecMainStatus = 15 }, "killed by SIGTERM"},
		"another program's own word": {func(s *State) { s.Result, s.ExecMainCode, s.ExecMainStatus = "exit-code", 1, 9 }, "exited with status 9"},
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
	failed := State{ActiveState: "failed", SubState: "failed", Result: "exit-code"}
	for what, c := range map[string]struct {
		change  func(*State)
		limited bool
	}{
		"it may not be restarted":         {func(s *State) { s.LeftInactiveAt, s.ExecMainExitAt = at(1), at(2) }, false},
		"its main process never ran":      {func(s *State) { s.NRestarts, s.LeftInactiveAt = 14, at(3) }, true},
		"after a crash loop":              {func(s *State) { s.NRestarts, s.ExecMainExitAt, s.LeftInactiveAt = 14, at(2), at(3) }, true},
		"killed while it was stopped":     {func(s *State) { s.NRestarts, s.LeftInactiveAt, s.ExecMainExitAt = 1, at(1), at(2) }, false},
		"starts that somebody asked for":  {func(s *State) { s.Result, s.LeftInactiveAt, s.ExecMainExitAt = "start-limit-hit", at(1), at(2) }, true},
		"it waits, and is to be started":  {func(s *State) { s.ActiveState, s.SubState, s.NRestarts = "activating", "auto-restart", 1 }, false},
		"systemd has not decided, so far": {func(s *State) { s.SubState, s.NRestarts = "failed-before-auto-restart", 1 }, false},
	} {
		s := failed
		c.change(&s)
		assert.Equal(t, c.limited, s.StartLimited(), what)
	}
}
