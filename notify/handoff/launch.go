package handoff

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"codex-proxy/notify"
)

// Launch is the process between a daemon and its Successor. It starts args with the
// hand-off socket, writes the PID to stdout, and waits for the verdict on stdin. After a
// byte it ends, and the started process becomes a child of PID 1. After the end of input,
// which the end of the daemon causes too, it kills the started process. If that ends
// first, Launch writes how to stdout. Launch returns the exit status.
func Launch(args []string, stdin io.Reader, stdout io.Writer) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(descriptor, "handoff")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to kill it with all that it started
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(stdout, "cannot start %s: %v\n", args[0], innermost(err))
		return notify.ExitExec
	}
	_ = cmd.ExtraFiles[0].Close() // its end must be seen by the daemon
	fmt.Fprintln(stdout, cmd.Process.Pid)

	verdict, ended := make(chan error, 1), make(chan string, 1)
	go func() {
		_, err := io.ReadFull(stdin, make([]byte, 1))
		verdict <- err
	}()
	go func() { ended <- ending(cmd.Wait()) }()
	select {
	case err := <-verdict:
		if err == nil {
			return 0
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	case how := <-ended:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		fmt.Fprintf(stdout, "ended (%s)\n", how)
	}
	return 1
}

func ending(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "exit status 0"
	case errors.As(err, &exit):
		return exit.Error()
	}
	return err.Error()
}

// innermost returns the reason that names neither the operation nor the path.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
