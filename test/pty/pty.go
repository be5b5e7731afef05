// Package pty opens pseudo-terminals for tests (pty(7)).
package pty

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns the two ends of a new pseudo-terminal until the test has ended: the terminal emulator's, and the
// terminal of the program.
func Open(t testing.TB) (emulator, terminal *os.File) {
	t.Helper()
	emulator, terminal, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = emulator.Close(), terminal.Close() })
	return emulator, terminal
}

// New is Open without a test. The caller closes both ends.
func New() (emulator, terminal *os.File, err error) {
	emulator, err = open("/dev/ptmx")
	if err != nil {
		return nil, nil, err
	}
	fd := int(emulator.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = open(fmt.Sprintf("/dev/pts/%d", number))
	}
	if err != nil {
		return nil, nil, errors.Join(err, emulator.Close())
	}
	return emulator, terminal, nil
}

func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) }

// Resize sets the size of the terminal.
func Resize(t testing.TB, emulator *os.File, rows, columns uint16) {
	t.Helper()
	if err := SetSize(emulator, rows, columns); err != nil {
		t.Fatal(err)
	}
}

// SetSize is Resize without a test. A new terminal has no size, and programs paint nothing on it.
func SetSize(emulator *os.File, rows, columns uint16) error {
	return unix.IoctlSetWinsize(int(emulator.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}
