package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LaunchCommand is the argument on which a program that hands over calls Launch.
const LaunchCommand = "launch"

// Program is this process's command line with the program as an absolute path,
// for Succeed. It is to be called at start-up, while PATH and the working
// directory are those of the caller. The path, not /proc/self/exe, is what an
// upgrade replaces.
func Program() ([]string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the program for reloads: %w", err)
	}
	return append([]string{path}, os.Args[1:]...), nil
}

// Successor is a process that is about to take this one's place. Either Take or
// Kill must be called. It is used by one goroutine.
type Successor struct {
	PID int

	peer     peer
	launcher *exec.Cmd
	release  io.WriteCloser // a byte releases the process, the end alone kills it
	pipe     *os.File       // from the launcher
	said     *bufio.Reader  // what it says: the PID, then how the process ended
}

// Succeed starts program, its path first, so that it can take over the sockets
// and n. state is for Predecessor.State, before the program could serve. systemd
// wants a new main process to be its own child, so the process is started by another
// one that ends: this program with LaunchCommand.
func Succeed(program []string, n *Notifier, sockets Sockets, state any) (*Successor, error) {
	ours, theirs, err := newPair()
	if err != nil {
		return nil, fmt.Errorf("cannot prepare a hand-off: %w", err)
	}
	defer theirs.Close()
	s := &Successor{peer: ours}
	if err := s.launch(program, n, theirs); err != nil {
		_ = ours.conn.Close()
		return nil, err
	}
	if s.PID, err = s.readPID(); err == nil {
		err = s.peer.sendSockets(sockets, state)
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Successor) launch(program []string, n *Notifier, theirs *os.File) error {
	said, saying, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot prepare a hand-off: %w", err)
	}
	defer saying.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{LaunchCommand}, program...)...)
	cmd.Env = append(append(commandEnv(os.Environ()), n.environment()...), fmt.Sprintf("%s=%d", handoffEnv, handoffFD))
	cmd.Stdout, cmd.Stderr = saying, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	if s.release, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot launch %s: %w", program[0], err), said.Close())
	}
	s.launcher, s.said, s.pipe = cmd, bufio.NewReader(said), said
	return nil
}

// readPID reads the launcher's first word.
func (s *Successor) readPID() (int, error) {
	line, err := s.hear()
	if err != nil {
		return 0, fmt.Errorf("cannot launch the new process: %w", err)
	}
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0, errors.New(line)
	}
	return pid, nil
}

func (s *Successor) hear() (string, error) {
	if err := s.pipe.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return "", err
	}
	line, err := s.said.ReadString('\n')
	return strings.TrimSpace(line), err
}

// Await waits until the process could serve. serving tells whether requests
// would succeed; status is its own word on that. The error is for an operator.
func (s *Successor) Await(ctx context.Context) (serving bool, status string, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.peer.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	m, _, err := s.peer.receive()
	switch {
	case err == nil && m.Kind == "ready":
		return m.Serving, m.Text, nil
	case err == nil:
		return false, "", errors.New(m.Text)
	case ctx.Err() != nil:
		return false, "", context.Cause(ctx)
	}
	how, err := s.hear()
	if err != nil {
		how = "closed its end"
	}
	return false, "", fmt.Errorf("the new process %s before it was ready", how)
}

// Take makes the process the unit's main one and returns when it serves. taken
// tells whether that has become of it; then n is silent. Otherwise nothing has
// changed, and the process is killed.
func (s *Successor) Take(n *Notifier, state any) (taken bool, err error) {
	take := message{Kind: "take"}
	take.State, err = json.Marshal(state)
	if err == nil {
		_, err = take.packet() // while there is a way back
	}
	if err == nil {
		_, err = s.release.Write([]byte{1})
	}
	if err != nil {
		s.Kill()
		return false, fmt.Errorf("cannot release the new process: %w", err)
	}
	if err = s.reap(); err != nil {
		err = fmt.Errorf("cannot release the new process: %w", err)
	} else {
		err = n.handOver(s.PID)
	}
	if err != nil {
		_ = syscall.Kill(-s.PID, syscall.SIGKILL)
		return false, errors.Join(err, s.peer.conn.Close())
	}
	if err = s.peer.send(take); err == nil {
		err = s.taken()
	}
	if err != nil {
		return true, fmt.Errorf("the new process does not answer: %w", err)
	}
	return true, nil
}

func (s *Successor) taken() error {
	if err := s.peer.conn.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return err
	}
	m, _, err := s.peer.receive()
	if err == nil && m.Kind != "taken" {
		err = fmt.Errorf("it said %q", m.Kind)
	}
	return errors.Join(err, s.peer.conn.SetReadDeadline(time.Time{}))
}

// Kill ends the process, and all that it started.
func (s *Successor) Kill() {
	_ = s.release.Close()
	_ = s.reap()
	_ = s.peer.conn.Close()
}

// Stop asks the process, once it has been taken for the main one, to stop.
func (s *Successor) Stop() { _ = syscall.Kill(s.PID, syscall.SIGTERM) }

// reap waits for the launcher, which has nothing left to wait for.
func (s *Successor) reap() error {
	late := time.AfterFunc(takeBound, func() { _ = s.launcher.Process.Kill() })
	defer late.Stop()
	err := s.launcher.Wait()
	return errors.Join(err, s.pipe.Close())
}

// Tell passes on what the process must know of this one.
func (s *Successor) Tell(news any) { s.peer.tell(news) }

// Orders calls drain and hasten when the successor, told by the service
// manager, asks for it, and news with what it passes on. It returns when the
// successor has ended or ctx has. The socket stays open to the very end of this
// process, which the successor waits for: when the main process ends first,
// systemd kills what is left.
func (s *Successor) Orders(ctx context.Context, drain, hasten func(), news func(json.RawMessage)) {
	stop := context.AfterFunc(ctx, func() { _ = s.peer.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		m, _, err := s.peer.receive()
		if err != nil {
			return
		}
		switch m.Kind {
		case "drain":
			drain()
		case "hasten":
			hasten()
		case "news":
			news(m.State)
		}
	}
}
