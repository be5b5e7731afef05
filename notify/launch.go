package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Launch is the process between a daemon and its Successor. It starts args with
// the hand-off socket, writes the PID to stdout, and waits for the verdict on
// stdin: a byte means to leave the process alone and end, so that the process
// becomes PID 1's child; the end of input, which is also how the end of the
// daemon looks, means to kill it. If the process ends first, how it did is
// written to stdout. Launch returns the exit status.
func Launch(args []string, stdin io.Reader, stdout io.Writer) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(handoffFD, "handoff")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to kill it with all that it started
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(stdout, "cannot start %s: %v\n", args[0], cause(err))
		return ExitExec
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
