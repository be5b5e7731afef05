package notify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// outputLimit bounds the bytes kept of a probe command's output.
const outputLimit = 512

// Shell runs one line of shell, for probes that are commands. It returns nil if the
// line exits with 0, and else the exit status and the beginning of its output. At the
// end of ctx it kills the whole process group.
func Shell(ctx context.Context, line string) error {
	return Run(ctx, []string{"/bin/sh", "-c", line}, nil)
}

// Run is Shell for a program and its arguments, with a standard input and variables in addition to the environment.
func Run(ctx context.Context, args []string, stdin []byte, env ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	cmd.Env = append(CommandEnv(os.Environ()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output headWriter
	// A process that left the group may keep the output open for ever.
	pipe, err := newStderrPipe(output.add)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = pipe.file(), pipe.file()
	if err := cmd.Start(); err != nil {
		pipe.close()
		return err
	}
	go pipe.run()
	err = cmd.Wait()
	pipe.end()
	switch {
	case err == nil:
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

func (w *headWriter) add(piece string) {
	room := outputLimit - len(w.head)
	w.head = append(w.head, piece[:min(len(piece), room)]...)
}
