package stdio

import (
	"errors"
	"os"
	"syscall"
	"time"

	"codex-proxy/runner/logs"
)

// Streams are the standard streams of a command: pipes, or a terminal.
type Streams struct {
	// Command has the files of the command: its input, its output and its standard error.
	Command []*os.File
	Outputs map[logs.Stream]*os.File // to read

	own      []*os.File // of Command: those to close when it is started
	terminal *PTY       // nil for pipes; it stays open
}

// Piped has the output of a command in two pipes. Its input is empty if stdin is nil.
func Piped(stdin *os.File) (*Streams, error) {
	s := &Streams{Outputs: map[logs.Stream]*os.File{}}
	if stdin == nil {
		var err error
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, err
		}
		s.own = append(s.own, stdin)
	}
	s.Command = append(s.Command, stdin)
	for _, stream := range []logs.Stream{logs.Stdout, logs.Stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			s.Started()
			return nil, errors.Join(err, s.Close())
		}
		s.Command, s.own, s.Outputs[stream] = append(s.Command, write), append(s.own, write), read
	}
	return s, nil
}

// InTerminal has all streams of a command in a terminal.
func InTerminal(t *PTY) *Streams {
	return &Streams{
		Command: []*os.File{t.Slave, t.Slave,
			t.Slave}, Outputs: map[logs.Stream]*os.File{logs.Stdout: t.Master}, terminal: t,
	}
}

// Attributes has the command lead a process group, or a session with the terminal.
func (s *Streams) Attributes() *syscall.SysProcAttr {
	if s.terminal == nil {
		return &syscall.SysProcAttr{Setpgid: true}
	}
	return &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// Foreground is the process group in the foreground of the terminal; 0 without one.
func (s *Streams) Foreground() int {
	if s.terminal == nil {
		return 0
	}
	return s.terminal.Foreground()
}

// Started closes the files that only the command needs.
func (s *Streams) Started() {
	for _, file := range s.own {
		_ = file.Close()
	}
}

// Close closes the outputs of a command that did not start.
func (s *Streams) Close() error {
	if s.terminal != nil {
		return nil
	}
	var errs []error
	for _, output := range s.Outputs {
		errs = append(errs, output.Close())
	}
	return errors.Join(errs...)
}

// Stop ends the copies of the outputs after the bytes that are there now, and refuses further input.
func (s *Streams) Stop() {
	for _, output := range s.Outputs {
		_ = output.SetDeadline(time.Now())
	}
}
