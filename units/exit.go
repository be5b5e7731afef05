package units

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// si_code of a child that ended, as ExecMainCode carries it (waitid(2)).
const (
	codeExited = 1
	codeKilled = 2
	codeDumped = 3
)

// Exit is how a unit's main process ended.
type Exit struct {
	Result string // systemd's verdict: success, exit-code, signal, core-dump, watchdog, timeout, oom-kill, …
	Code   string // exited, killed or dumped
	Status string // the exit status ("1"), or the signal's name ("SIGKILL")
	At     time.Time
}

// OOMKill is the Result of a service that the kernel has killed a process of for
// lack of memory, and of an Exit with that cause.
const OOMKill = "oom-kill"

// LastExit returns how the main process last ended. It knows only until the
// unit starts again, which may be a moment later: keep what you saw.
func (s State) LastExit() (Exit, bool) {
	e := Exit{Result: s.Result, At: s.ExecMainExitAt, Status: signalName(s.ExecMainStatus)}
	switch s.ExecMainCode {
	case codeExited:
		e.Code, e.Status = "exited", strconv.Itoa(int(s.ExecMainStatus))
	case codeKilled:
		e.Code = "killed"
	case codeDumped:
		e.Code = "dumped"
	default:
		return Exit{}, false
	}
	if s.outOfMemory() {
		e.Result = OOMKill
	}
	return e, true
}

// outOfMemory reports what systemd calls a mere signal with OOMPolicy=continue:
// notify-exec has found that its command was killed for lack of memory, and ended
// of the same signal.
func (s State) outOfMemory() bool {
	killed := s.ExecMainCode == codeKilled && syscall.Signal(s.ExecMainStatus) == syscall.SIGKILL
	return s.Result == "signal" && killed && syscall.Errno(s.StatusErrno) == syscall.ENOMEM
}

// String says it in words: "exited with status 3", "killed by SIGABRT (watchdog)".
func (e Exit) String() string {
	var how string
	switch e.Code {
	case "exited":
		how = "exited with status " + e.Status
	case "killed":
		how = "killed by " + e.Status
	case "dumped":
		how = "dumped core on " + e.Status
	default:
		return "has not exited"
	}
	switch e.Result {
	case "", "success", "exit-code", "signal", "core-dump":
		return how
	}
	return how + " (" + e.Result + ")"
}

func signalName(n int32) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
