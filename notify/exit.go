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

// Exit ends this process the way a command ended. If a signal killed it then the
// same signal kills us, without a core dump of ours, so that the service manager
// reports the truth (Result=signal and the signal in ExecMainStatus=). Otherwise
// it returns the status to exit with.
func Exit(status syscall.WaitStatus) int {
	if !status.Signaled() {
		return status.ExitStatus()
	}
	dieOf(status.Signal())
	// Not reached, except as the init process of a PID namespace, which the
	// kernel lets no signal of its own kill. Then do as shells do.
	return 128 + int(status.Signal())
}

// dieOf goes around os/signal: the Go runtime never gives up its handlers for
// SIGSEGV, SIGABRT and their like, and would turn them into exit status 2.
func dieOf(sig syscall.Signal) {
	// Unlike RLIMIT_CORE=0, this also holds where cores are piped to a program.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	// All zero is SIG_DFL, no flags and an empty mask on every architecture,
	// and the kernel reads no more than the structure it knows.
	var defaultAction [64]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	_ = unblock(sig)
	_ = unix.Kill(os.Getpid(), sig)
	// The signal may be delivered to another thread.
	_ = unix.Nanosleep(&unix.Timespec{Sec: 1}, nil)
}

// unblock: whoever started us may have blocked the signal.
func unblock(sig syscall.Signal) error { return mask(unix.SIG_UNBLOCK, sig) }

// maskTerm blocks or unblocks SIGTERM for the calling thread.
func maskTerm(how int) error { return mask(how, syscall.SIGTERM) }

func mask(how int, sig syscall.Signal) error {
	var set unix.Sigset_t
	bits := uint(unsafe.Sizeof(set.Val[0]) * 8)
	set.Val[uint(sig-1)/bits] |= 1 << (uint(sig-1) % bits)
	return unix.PthreadSigmask(how, &set, nil)
}

// signalName is the name that kill(1) knows, such as SIGTERM.
func signalName(sig os.Signal) string {
	if s, ok := sig.(syscall.Signal); ok && unix.SignalName(s) != "" {
		return unix.SignalName(s)
	}
	return sig.String()
}
