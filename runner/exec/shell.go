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
)

// shells are the programs that a shell is, the first that there is.
var shells = []string{"bash", "sh"}

// shell runs a shell in a terminal, with the directory and the variables of the command, until it exits or the
// connection ends. Its output goes to the connection alone. The error is about a shell that did not start.
func (r *run) shell(request Request, conn net.Conn, input *bufio.Reader) error {
	terminal, err := openPTY(request.Rows, request.Columns)
	if err != nil {
		return err
	}
	defer func() { _ = terminal.master.Close() }() // the kernel then sends SIGHUP to its processes
	process, err := r.startShell(request, terminal.slave)
	_ = terminal.slave.Close()
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
		terminal.serve(input)
		hangUp(process)
	})
	var shown sync.WaitGroup
	shown.Go(func() { terminal.show(conn) })
	state, err := process.Wait()
	_ = terminal.master.SetDeadline(time.Now()) // others may have the terminal
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

func (r *run) startShell(request Request, terminal *os.File) (*os.Process, error) {
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

// show sends the output of the terminal until its end.
func (p *pty) show(conn net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.master.Read(buffer)
		if err == nil {
			err = wire.WriteShellFrame(conn, wire.ShellData, buffer[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			for rest := p.rest(buffer); len(rest) > 0; rest = p.rest(buffer) {
				_ = wire.WriteShellFrame(conn, wire.ShellData, rest)
			}
		}
		if err != nil {
			return // EIO: no process has the terminal
		}
	}
}

// serve handles the frames of the client until the first mistake or the end.
func (p *pty) serve(input *bufio.Reader) {
	for {
		kind, payload, err := wire.ReadShellFrame(input)
		if err == nil {
			switch kind {
			case wire.ShellData:
				_, err = p.master.Write(payload)
			case wire.ShellSize:
				err = p.window(payload)
			default:
				err = errors.New("a client sends no such frame")
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *pty) window(payload []byte) error {
	if len(payload) != 4 {
		return errors.New("a size has two numbers of 16 bits")
	}
	return p.resize(binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]))
}
