package handoff

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codex-proxy/notify"
)

// LaunchCommand is the argument with which Succeed starts this program anew, to call
// Launch.
const LaunchCommand = "launch"

// Program returns the command line of this process for Settings.Program. It must be called at start-up, while PATH and
// the working directory are the caller's. An upgrade replaces the file at this path; /proc/self/exe would name the old
// one.
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

// Settings are the settings of a Successor.
type Settings struct {
	Program  []string         // the command line, with an absolute path
	Notifier *notify.Notifier // of this process
	Sockets  notify.Sockets
	State    any // for Predecessor.State
	Logger   *slog.Logger
}

// Successor is a process that is about to replace this one. Either Take or Kill must be
// called. Send may be called from any goroutine, all other methods from one.
type Successor struct {
	PID int

	notifier *notify.Notifier
	peer     *peer
	launcher *exec.Cmd
	release  io.WriteCloser // a byte releases the process, the end alone kills it
	pipe     *os.File       // from the launcher
	lines    *bufio.Reader  // of pipe: the PID, then how the process ended
}

// Succeed starts a process that can take over the sockets and the notifier. systemd
// requires a new main process to be its own child, so another process starts it and ends:
// this program with LaunchCommand.
func Succeed(settings Settings) (*Successor, error) {
	ours, theirs, err := newPair(settings.Logger)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare a hand-off: %w", err)
	}
	defer theirs.Close()
	s := &Successor{notifier: settings.Notifier, peer: ours}
	if err := s.launch(settings.Program, theirs); err != nil {
		_ = ours.conn.Close()
		return nil, err
	}
	if s.PID, err = s.readPID(); err == nil {
		err = s.peer.sendSockets(settings.Sockets, settings.State)
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Successor) launch(program []string, theirs *os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot prepare a hand-off: %w", err)
	}
	defer write.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{LaunchCommand}, program...)...)
	cmd.Env = append(notify.CommandEnv(os.Environ()), s.notifier.Environment()...)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", variable, descriptor))
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	if s.release, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot launch %s: %w", program[0], err), read.Close())
	}
	s.launcher, s.lines, s.pipe = cmd, bufio.NewReader(read), read
	return nil
}

// launchBound is for the start of a program, from a cold disk and on a busy machine.
const launchBound = 20 * time.Second

// readPID reads the launcher's first line.
func (s *Successor) readPID() (int, error) {
	line, err := s.readLine(launchBound)
	if err != nil {
		return 0, fmt.Errorf("cannot launch the new process: %w", err)
	}
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0, errors.New(line)
	}
	return pid, nil
}

func (s *Successor) readLine(bound time.Duration) (string, error) {
	if err := s.pipe.SetReadDeadline(time.Now().Add(bound)); err != nil {
		return "", err
	}
	line, err := s.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// Await waits until the process could serve. serving reports whether requests would
// succeed; status is the status of the process. The error is for an operator.
func (s *Successor) Await(ctx context.Context) (serving bool, status string, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.peer.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	m, err := s.peer.await(ready, failed)
	switch {
	case err == nil && m.Kind == ready:
		return m.Serving, m.Text, nil
	case err == nil:
		return false, "", errors.New(m.Text)
	case ctx.Err() != nil:
		return false, "", context.Cause(ctx)
	}
	how, err := s.readLine(takeBound)
	if err != nil {
		how = "closed its end"
	}
	return false, "", fmt.Errorf("the new process %s before it was ready", how)
}

// Take makes the process the unit's main one, with state for Predecessor.Ready, and
// returns when it serves. taken reports whether it is the main one: then this process's
// notifier is silent. Otherwise nothing has changed, and the process is killed.
func (s *Successor) Take(state any) (taken bool, err error) {
	m := packet{Kind: take}
	m.State, err = json.Marshal(state)
	if err == nil {
		_, err = m.encode() // while there is a way back
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
		err = s.notifier.HandOff(s.PID)
	}
	if err != nil {
		_ = syscall.Kill(-s.PID, syscall.SIGKILL)
		return false, errors.Join(err, s.peer.conn.Close())
	}
	if err = s.peer.send(m); err == nil {
		err = s.awaitTaken()
	}
	if err != nil {
		return true, fmt.Errorf("the new process does not answer: %w", err)
	}
	return true, nil
}

func (s *Successor) awaitTaken() error {
	if err := s.peer.conn.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return err
	}
	_, err := s.peer.await(taken)
	return errors.Join(err, s.peer.conn.SetReadDeadline(time.Time{}))
}

// Kill ends the process, and all that it started.
func (s *Successor) Kill() {
	_ = s.release.Close()
	_ = s.reap()
	_ = s.peer.conn.Close()
}

// Stop asks the process, once it is the main one, to stop.
func (s *Successor) Stop() { _ = syscall.Kill(s.PID, syscall.SIGTERM) }

// reap waits for the launcher, which waits for nothing by then.
func (s *Successor) reap() error {
	late := time.AfterFunc(takeBound, func() { _ = s.launcher.Process.Kill() })
	defer late.Stop()
	err := s.launcher.Wait()
	return errors.Join(err, s.pipe.Close())
}

// Send sends a message to a process that has taken over.
func (s *Successor) Send(kind Kind, body any) { s.peer.sendBody(kind, body) }

// Pass sends a message with descriptors, which stay open here. A process of version 0 would not close them, and gets
// none.
func (s *Successor) Pass(kind Kind, body any, fds ...int) error {
	if s.peer.version == 0 {
		return errors.New("the new process is older than the message " + string(kind))
	}
	m := packet{Kind: kind}
	var err error
	if m.State, err = json.Marshal(body); err != nil {
		return err
	}
	return s.peer.send(m, fds...)
}

// Follow calls handle with each message of a process that has taken over, on its own
// goroutine, until that process has ended or ctx has. handle reports whether it knows the
// kind. The socket stays open to the very end of this process, for which the successor
// waits: when the main process ends first, systemd kills the others.
func (s *Successor) Follow(ctx context.Context, handle func(Message) (known bool)) {
	s.peer.follow(ctx, newsOfSuccessor, handle)
}
