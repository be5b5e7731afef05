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

// Exit describes the end of a unit's main process.
type Exit struct {
	Result string // systemd's verdict: success, exit-code, signal, core-dump, watchdog, timeout, oom-kill, …
	Code   string // exited, killed or dumped
	Status string // the exit status ("1"), or the signal's name ("SIGKILL")
	At     time.Time
}

// oomKill is the Result of a service, and of an Exit, if the kernel has killed a
// process of the service for lack of memory.
const oomKill = "oom-kill"

// LastExit returns the last end of the main process. systemd clears it when the
// unit starts again, which may be a moment later: keep the value.
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
		e.Result = oomKill
	}
	return e, true
}

// LastEnd is LastExit, and for a start that failed before the main process ran an Exit with
// only a Result and a time.
func (s State) LastEnd() (Exit, bool) {
	if e, ok := s.LastExit(); ok {
		return e, true
	}
	failed := (s.Waiting() || s.Failed()) && s.Result != "success"
	return Exit{Result: s.Result, At: s.StateChangedAt}, failed
}

// outOfMemory reports an out-of-memory kill that systemd reports as a plain signal
// with OOMPolicy=continue: notify-exec has found that the kernel killed its command
// for lack of memory, and has ended by the same signal.
func (s State) outOfMemory() bool {
	killed := s.ExecMainCode == codeKilled && syscall.Signal(s.ExecMainStatus) == syscall.SIGKILL
	return s.Result == "signal" && killed && syscall.Errno(s.StatusErrno) == syscall.ENOMEM
}

// String is a phrase such as "exited with status 3" or "killed by SIGABRT (watchdog)".
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
