package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/logs"
	"codex-proxy/runner/session"
)

// child is the running command. It leads a process group of its own.
type child struct {
	process        *os.Process
	started        time.Time
	stdout, stderr *os.File // the ends to read
}

// start starts the command. Its standard input is empty if stdin is nil.
func start(l *Launch, stdin *os.File, extra *inheritance) (*child, error) {
	dir := filepath.Join(l.Dir, l.Spec.Directory)
	program, err := find(l.Spec.Args[0], dir, variable(l.Env, "PATH"))
	if err != nil {
		return nil, err
	}
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, err
		}
		defer stdin.Close()
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	stderr, errOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	defer errOut.Close()
	c := &child{stdout: stdout, stderr: stderr}
	if err := c.run(program, dir, l, []*os.File{stdin, out, errOut}, extra); err != nil {
		return nil, errors.Join(err, stdout.Close(), stderr.Close())
	}
	return c, nil
}

func (c *child) run(program, dir string, l *Launch, files []*os.File, extra *inheritance) error {
	if err := extra.set(); err != nil {
		return errors.Join(err, extra.restore())
	}
	c.started = time.Now()
	process, err := startApart(program, l.Spec.Args, &os.ProcAttr{
		Dir: dir, Env: l.Env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	restored := extra.restore()
	if err != nil {
		return startError(l.Spec.Args[0], dir, err)
	}
	c.process = process
	if err := errors.Join(restored, extra.bound(process.Pid)); err != nil {
		c.kill()
		return fmt.Errorf("cannot set the limits of the command: %w", err)
	}
	return nil
}

// startError reports an unusable directory and an unusable program with different errors.
func startError(name, dir string, err error) error {
	if info, stat := os.Stat(dir); stat != nil || !info.IsDir() {
		return &stageError{session.StartStage, fmt.Errorf("cannot start %s: there is no directory %s in the workspace",
			name, dir)}
	}
	stage := session.StartStage
	switch {
	case errors.Is(err, fs.ErrNotExist): // the interpreter of a script
		stage = session.NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC):
		stage = session.NotExecutable
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &stageError{stage, fmt.Errorf("cannot start %s: %w", name, err)}
}

func (c *child) pid() int { return c.process.Pid }

// streams are the pipes of the command.
func (c *child) streams() iter.Seq2[logs.Stream, *os.File] {
	return func(yield func(logs.Stream, *os.File) bool) {
		_ = yield(logs.Stdout, c.stdout) && yield(logs.Stderr, c.stderr)
	}
}

// stopStreams ends the copies of the streams after the bytes that are in the pipes now.
func (c *child) stopStreams() {
	for _, pipe := range c.streams() {
		_ = pipe.SetReadDeadline(time.Now())
	}
}

// terminate and kill send a signal to the process group. Processes that have left it are killed with the unit.
func (c *child) terminate() { _ = unix.Kill(-c.process.Pid, unix.SIGTERM) }
func (c *child) kill()      { _ = unix.Kill(-c.process.Pid, unix.SIGKILL) }

// wait returns a channel that receives the end of the command.
func (c *child) wait() <-chan end {
	exited := make(chan end, 1)
	go func() {
		state, err := c.process.Wait()
		exited <- end{state, err}
	}()
	return exited
}

// end is the end of the command.
type end struct {
	state *os.ProcessState
	err   error
}

// tell adds the end to a result. If wait(2) failed, the result stays as before the end.
func (e end) tell(r *session.Result) {
	if e.err != nil {
		return
	}
	status, usage := e.state.Sys().(syscall.WaitStatus), e.state.SysUsage().(*syscall.Rusage)
	r.Exited = true
	if status.Signaled() {
		r.Signal, r.Core = int(status.Signal()), status.CoreDump()
	} else {
		r.Status = status.ExitStatus()
	}
	r.User, r.System = e.state.UserTime(), e.state.SystemTime()
	r.MaxRSS = usage.Maxrss << 10 // ru_maxrss is in KiB, getrusage(2)
}

// leastDynamic and mostDynamic are the users that systemd gives with DynamicUser= (systemd.exec(5)).
const leastDynamic, mostDynamic = 61184, 65519

// KillRest kills all processes of this process's user but itself (kill(2) with -1), as often as they fork. It does
// nothing for a user that others may have, too: one that systemd has not given to this unit alone.
func KillRest() {
	if dynamic(os.Getuid()) {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
}

func dynamic(uid int) bool { return uid >= leastDynamic && uid <= mostDynamic }
