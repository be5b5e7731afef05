package exec

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// StopSignal is KillSignal= of the units of sessions. It is a real-time signal, as Go's threads have SIGTERM open.
const StopSignal = unix.Signal(36) // SIGRTMIN+2 of signal(7)

// Terminated returns a context that ends when systemd stops the unit. The command has the same user as this process and
// could send it the same signal, so the sender counts: Go does not report it, signalfd(2) does, of signals that are
// blocked. The unit starts this program with the signal blocked, as no thread may have it open. Other signals do not
// end this process.
func Terminated(ctx context.Context) (context.Context, context.CancelFunc, error) {
	var blocked unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &blocked); err != nil {
		return nil, nil, err
	}
	if blocked.Val[0]&stopSet().Val[0] == 0 {
		return nil, nil, fmt.Errorf("signal %d is not blocked: start this program with env --block-signal, as ExecStart= of "+
			"codex-session@.service does", StopSignal)
	}
	fd, err := unix.Signalfd(-1, stopSet(), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot wait for signal %d: %w", StopSignal, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	// A thread that starts a process has the signal open for a moment (startApart).
	opened, ignored := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(opened, StopSignal)
	signal.Notify(ignored, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signals := os.NewFile(uintptr(fd), "signalfd")
	go func() {
		if awaitStop(signals) {
			cancel()
		}
	}()
	go func() {
		select {
		case <-opened:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(opened)
		signal.Stop(ignored)
		cancel()
		_ = signals.Close()
	}, nil
}

// stopSet is the set of StopSignal.
func stopSet() *unix.Sigset_t {
	set := &unix.Sigset_t{}
	set.Val[0] = 1 << (uint(StopSignal) - 1)
	return set
}

// awaitStop reports that PID 1 has sent a signal. It returns false when the file is closed. A sender can write any PID
// into a signal of sigqueue(3), but then its code is not SI_USER (rt_sigqueueinfo(2)).
func awaitStop(signals *os.File) bool {
	info := make([]byte, signalInfo)
	for {
		if n, err := signals.Read(info); err != nil || n != len(info) {
			return false
		}
		code, pid := binary.NativeEndian.Uint32(info[codeAt:]), binary.NativeEndian.Uint32(info[pidAt:])
		if code == siUser && pid == 1 {
			return true
		}
	}
}

// The size of struct signalfd_siginfo of signalfd(2), and the places of ssi_code and ssi_pid there.
const signalInfo, codeAt, pidAt = 128, 8, 12

// siUser is SI_USER of sigaction(2): the signal is one of kill(2).
const siUser = 0
