package attach

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/remotes/remoteapi"
)

// run runs codex in the foreground of our terminal, where it gets the same signals as we do, and returns its exit
// status as a shell gives it.
func (a *Attach) run(program string, args []string) (status int, err error) {
	// PR_SET_PDEATHSIG fires when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGHUP}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot run codex: %w", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // the status is in ProcessState
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				_ = cmd.Process.Signal(s) // the other two come from the terminal, to both of us
			}
		case <-ended:
			if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
				return killed + int(w.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// farewellBound bounds the question whether something still runs.
const farewellBound = 300 * time.Millisecond

// farewell prints the command for the next attach.
func (a *Attach) farewell(ctx context.Context, socket string) {
	if !cli.IsTerminal(a.Stderr) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewellBound)
	defer cancel()
	st, err := remoteapi.AskStatus(ctx, socket)
	goes := ""
	if err == nil && len(st.Turns) > 0 {
		goes = ", and its turn goes on"
	}
	flag := ""
	if a.ReadOnly {
		flag = " --read-only"
	}
	fmt.Fprintf(a.Stderr, "Detached from the remote %s%s. Back to it: codex-proxy attach%s %s\n", a.Remote, goes, flag,
		a.Remote)
}
