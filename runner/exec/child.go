package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/exec/stdio"
	"codex-proxy/runner/session"
)

// child is the running command. It leads a process group of its own.
type child struct {
	*stdio.Streams

	process *os.Process
	started time.Time
}

// start starts the command, and closes the ends of its streams that are its own.
func start(l *Launch, streams *stdio.Streams, extra *inheritance) (*child, error) {
	defer streams.Started()
	dir := filepath.Join(l.Dir, l.Spec.Directory)
	program, err := find(l.Programs.Seen(l.Spec.Args[0]), dir, variable(l.Env, "PATH"))
	if err != nil {
		return nil, errors.Join(l.unfound(err), streams.Close())
	}
	c := &child{Streams: streams}
	if err := c.run(program, dir, l, extra); err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	return c, nil
}

func (c *child) run(program, dir string, l *Launch, extra *inheritance) error {
	if err := extra.set(); err != nil {
		return errors.Join(err, extra.restore())
	}
	c.started = time.Now()
	process, err := startApart(program, l.Spec.Args, &os.ProcAttr{
		Dir: dir, Env: l.Env, Files: c.Command, Sys: c.Attributes(),
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

// terminate and kill send a signal to the process group, and to the job in the foreground of the terminal. Processes
// that have left these are killed with the unit.
func (c *child) terminate() { c.signal(unix.SIGTERM) }
func (c *child) kill()      { c.signal(unix.SIGKILL) }

func (c *child) signal(s unix.Signal) {
	_ = unix.Kill(-c.process.Pid, s)
	if group := c.Foreground(); group > 0 && group != c.process.Pid {
		_ = unix.Kill(-group, s)
	}
}

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
