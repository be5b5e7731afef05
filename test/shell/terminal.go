package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"

	"codex-proxy/test/machine"
	"codex-proxy/test/pty"
)

// onTerminal runs bash in the machine on a pseudo-terminal, and passes what is typed and shown between it and the
// terminal of this program. The exit status of the shell is no error.
func onTerminal(ctx context.Context, m *machine.Machine) error {
	emulator, terminal, err := pty.New()
	if err != nil {
		return err
	}
	defer emulator.Close()
	restore, err := raw(os.Stdin)
	if err != nil {
		return errors.Join(errors.New("the shell needs a terminal (hint: -c COMMAND runs without one)"), terminal.Close())
	}
	defer restore()
	defer followSize(emulator)()
	go func() { _, _ = io.Copy(emulator, os.Stdin) }() // ends with the program
	shown := make(chan struct{})
	go func() { defer close(shown); _, _ = io.Copy(os.Stdout, emulator) }()
	// setsid makes the terminal the controlling one of the shell, for job control.
	err = m.Exec(ctx, machine.Exec{Args: []string{"setsid", "--ctty", "--wait", "bash", "-l"},
		Env:   []string{"TERM=" + os.Getenv("TERM"), "SYSTEMD_COLORS=1"},
		Stdin: terminal, Stdout: terminal, Stderr: terminal})
	_ = terminal.Close() // the last end: the copy above then ends
	<-shown
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}

// raw passes on each character as it is typed (cfmakeraw of termios(3)) until restore.
func raw(file *os.File) (restore func(), err error) {
	fd := int(file.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	after := *before
	after.Iflag &^= unix.BRKINT | unix.ICRNL | unix.INLCR | unix.IGNCR | unix.ISTRIP | unix.IXON
	after.Oflag &^= unix.OPOST
	after.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	after.Cc[unix.VMIN], after.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &after); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

// followSize gives the terminal of the machine the size of this program's, now and after each change, until stop.
func followSize(emulator *os.File) (stop func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	done := make(chan struct{})
	set := func() {
		if size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = pty.SetSize(emulator, size.Row, size.Col)
		}
	}
	set()
	go func() {
		for {
			select {
			case <-changes:
				set()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(changes); close(done) }
}
