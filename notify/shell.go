package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// outputLimit bounds the bytes kept of a probe command's output.
const outputLimit = 512

// Shell runs one line of shell, for probes that are commands. It returns nil if the
// line exits with 0, and else the exit status and the beginning of its output. At the
// end of ctx it kills the whole process group.
func Shell(ctx context.Context, line string) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env = CommandEnv(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A process that left the group may keep the output open for ever.
	cmd.WaitDelay = 100 * time.Millisecond
	var output headWriter
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(output.head) == 0:
		return err
	default:
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output.head))
	}
}

// headWriter keeps the first outputLimit bytes and drops the rest.
type headWriter struct{ head []byte }

func (w *headWriter) Write(p []byte) (int, error) {
	room := outputLimit - len(w.head)
	w.head = append(w.head, p[:min(len(p), room)]...)
	return len(p), nil
}
