package exec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/exec/stdio"
)

// shells are the programs that a shell is, the first that there is.
var shells = []string{"bash", "sh"}

// terminals are the shells and the terminal of a command.
type terminals struct{ *run }

// shell runs a shell in a terminal, with the directory and the variables of the command, until it exits or the
// connection ends. Its output goes to the connection alone. The error is about a shell that did not start.
func (r terminals) shell(request Request, conn net.Conn, input *bufio.Reader) error {
	terminal, err := stdio.OpenPTY(request.Rows, request.Columns)
	if err != nil {
		return err
	}
	defer func() { _ = terminal.Master.Close() }() // the kernel then sends SIGHUP to its processes
	process, err := r.startShell(request, terminal.Slave)
	_ = terminal.Slave.Close()
	if err != nil {
		return err
	}
	reply, _ := r.observe()
	err = send(conn, reply)
	if err == nil {
		err = conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		hangUp(process)
		_, _ = process.Wait()
		return nil
	}
	var copies sync.WaitGroup
	copies.Go(func() {
		terminal.Serve(input)
		hangUp(process)
	})
	var shown sync.WaitGroup
	shown.Go(func() { terminal.Show(conn) })
	state, err := process.Wait()
	_ = terminal.Master.SetDeadline(time.Now()) // others may have the terminal
	shown.Wait()
	if err == nil {
		_ = wire.WriteShellFrame(conn, wire.ShellExit, binary.BigEndian.AppendUint32(nil, exitStatus(state)))
	}
	_ = conn.SetReadDeadline(time.Now())
	copies.Wait()
	return nil
}

// exitStatus returns the exit status as sh(1) does: 128 and the signal for a process that a signal ended.
func exitStatus(state *os.ProcessState) uint32 {
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return uint32(128 + status.Signal())
	}
	return uint32(state.ExitCode())
}

// hangUp ends the processes of a shell after its terminal is gone.
func hangUp(shell *os.Process) {
	_ = unix.Kill(-shell.Pid, unix.SIGHUP)
	_ = unix.Kill(-shell.Pid, unix.SIGKILL)
}

func (r terminals) startShell(request Request, terminal *os.File) (*os.Process, error) {
	r.mu.Lock()
	launch := r.launch
	r.mu.Unlock()
	if launch == nil {
		return nil, errors.New("there is no workspace yet: wait until the command runs")
	}
	env := with(launch.Env, "TERM", request.Term)
	program, err := findShell(launch.Dir, variable(env, "PATH"))
	if err != nil {
		return nil, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	process, err := startApart(program, []string{program}, &os.ProcAttr{
		Dir: launch.Dir, Env: env, Files: []*os.File{terminal, terminal, terminal},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start a shell: %w", err)
	}
	return process, nil
}

func findShell(dir, path string) (program string, err error) {
	for _, name := range shells {
		if program, err = find(name, dir, path); err == nil {
			return program, nil
		}
	}
	return "", err
}

// streams makes the streams of the command: its terminal if it has one, which then stays open until closeTerminal.
func (r terminals) streams(stdin *os.File) (*stdio.Streams, error) {
	if r.spec.Terminal == nil {
		return stdio.Piped(stdin)
	}
	terminal, err := stdio.OpenPTY(r.spec.Terminal.Rows, r.spec.Terminal.Columns)
	if err != nil {
		return nil, err
	}
	r.terminal.Store(terminal)
	return stdio.InTerminal(terminal), nil
}

// closeTerminal closes the terminal of the command.
func (r terminals) closeTerminal() {
	if terminal := r.terminal.Load(); terminal != nil {
		_, _ = terminal.Slave.Close(), terminal.Master.Close()
	}
}

// attach lets a client type into the terminal of the command, until the connection or the command ends. The output of
// the terminal is in the log. The error is about a client that was not attached.
func (r terminals) attach(request Request, conn net.Conn, input *bufio.Reader) error {
	terminal := r.terminal.Load()
	reply, changed := r.observe()
	switch {
	case terminal == nil:
		return errors.New("the command has no terminal")
	case reply.Phase != Running:
		return errors.New("the command does not run")
	}
	if err := terminal.Resize(request.Rows, request.Columns); err != nil {
		return err
	}
	err := send(conn, reply)
	if err == nil {
		err = conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		return nil //nolint:nilerr // the daemon is gone
	}
	left := make(chan struct{})
	defer close(left)
	go func() {
		select {
		case <-changed: // Running is over
			_ = conn.SetReadDeadline(time.Now())
		case <-left:
		}
	}()
	terminal.Serve(input)
	return nil
}
