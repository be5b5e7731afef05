package namespaces

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init makes the namespaces that text, of View.Args, describes, and runs args within it. It is the first process of the
// namespaces, so it collects the children that their parents have left, and all processes of the namespaces end with
// it. It returns the exit status of args; 128 and the number of a signal that has ended it.
func Init(text string, args []string) (status int, err error) {
	if os.Getpid() != 1 {
		return 0, errors.New("this is a command for remote-exec: it needs namespaces of its own")
	}
	if text == made {
		if err := Keep(); err != nil {
			return 0, err
		}
		return run(args)
	}
	var view View
	if err := json.Unmarshal([]byte(text), &view); err != nil {
		return 0, fmt.Errorf("cannot read what to hide: %w", err)
	}
	if err := view.mount(); err != nil {
		return 0, err
	}
	if view.Offline || view.Hands {
		if err := loopback(); err != nil {
			return 0, err
		}
	}
	port, err := offer(view.Hands)
	if err != nil {
		return 0, err
	}
	return 0, again(withPort(args, port))
}

// made stands for a View in the arguments once the namespaces are there.
const made = "made"

// again replaces this process by itself without rights in the namespaces: an execve(2) leaves none but those that this
// thread has to pass on, for all threads (capabilities(7)). The thread becomes the only one, and keeps its
// PR_SET_PDEATHSIG.
func again(args []string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	for _, err := range []error{
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Capset(&header, &none[0]),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0),
	} {
		if err != nil {
			return fmt.Errorf("cannot give rights up: %w", err)
		}
	}
	args = append([]string{os.Args[0], made, "--"}, args...)
	return fmt.Errorf("cannot start again: %w", unix.Exec("/proc/self/exe", args, os.Environ()))
}

// passedOn are the signals that go on to the command.
var passedOn = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGTERM}

// run runs a command until it ends.
func run(args []string) (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	runtime.LockOSThread() // PR_SET_PDEATHSIG fires when the thread ends that has forked
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec(args[0], args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot start %q: %w", args[0], err)
	}
	go func() {
		for sig := range signals {
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		}
	}()
	runtime.GOMAXPROCS(1)
	debug.FreeOSMemory() // it only waits from here on
	return collect(pid)
}

// collect waits for all children, until the command has ended.
func collect(command int) (int, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("cannot wait for codex: %w", err)
		case pid == command && status.Signaled():
			const signalled = 128
			return signalled + int(status.Signal()), nil
		case pid == command && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}
