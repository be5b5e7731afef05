// Package pty opens pseudo-terminals for tests (pty(7)).
package pty

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns the two ends of a new pseudo-terminal until the test has ended: the terminal emulator's, and the
// terminal of the program.
func Open(t testing.TB) (emulator, terminal *os.File) {
	t.Helper()
	emulator = open(t, "/dev/ptmx")
	fd := int(emulator.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return emulator, open(t, fmt.Sprintf("/dev/pts/%d", number))
}

func open(t testing.TB, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// Resize sets the size of the terminal.
func Resize(t testing.TB, emulator *os.File, rows, columns uint16) {
	t.Helper()
	size := &unix.Winsize{Row: rows, Col: columns}
	if err := unix.IoctlSetWinsize(int(emulator.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
}
