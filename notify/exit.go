package notify

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ExitExec is systemd's exit status for a program that could not be executed
// (EXIT_EXEC in systemd.exec(5)).
const ExitExec = 203

// Exit ends this process as the command with that status ended. If a signal killed
// the command, the same signal kills this process, without a core dump, so that the
// service manager reports the true cause (Result=signal and the signal in
// ExecMainStatus=). Otherwise Exit returns the exit status.
func Exit(status syscall.WaitStatus) int {
	if !status.Signaled() {
		return status.ExitStatus()
	}
	dieOf(status.Signal())
	// Reached only by the init process of a PID namespace, which none of its own signals kills. A shell has the same
	// status.
	return 128 + int(status.Signal())
}

// dieOf bypasses os/signal: the Go runtime always handles SIGSEGV, SIGABRT and the
// like, and would turn them into exit status 2.
func dieOf(sig syscall.Signal) {
	// Unlike RLIMIT_CORE=0, this also holds where cores are piped to a program.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	// All zero is SIG_DFL, no flags and an empty mask on every architecture, and the
	// kernel's structure is shorter than this array.
	var defaultAction [64]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	_ = unblock(sig)
	_ = unix.Kill(os.Getpid(), sig)
	// The signal may be delivered to another thread.
	_ = unix.Nanosleep(&unix.Timespec{Sec: 1}, nil)
}

// unblock is needed if our parent process has blocked the signal.
func unblock(sig syscall.Signal) error { return mask(unix.SIG_UNBLOCK, sig) }

// maskTerm blocks or unblocks SIGTERM for the calling thread.
func maskTerm(how int) error { return mask(how, syscall.SIGTERM) }

func mask(how int, sig syscall.Signal) error {
	var set unix.Sigset_t
	bits := uint(unsafe.Sizeof(set.Val[0]) * 8)
	set.Val[uint(sig-1)/bits] |= 1 << (uint(sig-1) % bits)
	return unix.PthreadSigmask(how, &set, nil)
}

// signalName is the signal's name in kill(1), such as SIGTERM.
func signalName(sig os.Signal) string {
	if s, ok := sig.(syscall.Signal); ok && unix.SignalName(s) != "" {
		return unix.SignalName(s)
	}
	return sig.String()
}
