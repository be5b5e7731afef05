// Package stdio has the standard streams of the programs of a session: pipes, or a pseudoterminal (pty(7)), which
// frames of package wire connect with the terminal of a client.
package stdio

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// PTY is a pseudoterminal. It needs nothing but five calls of ioctl(2).
type PTY struct {
	Master *os.File // of the program that shows the terminal
	Slave  *os.File // of the processes in it
	fd     int      // of Master, which stays non-blocking
}

// OpenPTY makes a pseudoterminal. The caller closes both ends.
func OpenPTY(rows, columns uint16) (*PTY, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	p := &PTY{fd: fd, Master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = p.Resize(rows, columns)
	}
	var number int
	if err == nil {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err == nil {
		p.Slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a terminal: %w", err), p.Master.Close())
	}
	return p, nil
}

// Resize sets the size of the window; its processes get SIGWINCH.
func (p *PTY) Resize(rows, columns uint16) error {
	return unix.IoctlSetWinsize(p.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}

// Foreground is the process group in the foreground of the terminal, or 0 (tcgetpgrp(3)).
func (p *PTY) Foreground() int {
	group, err := unix.IoctlGetInt(p.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// rest returns the output that is there, without waiting for more.
func (p *PTY) rest(buffer []byte) []byte {
	n, err := unix.Read(p.fd, buffer)
	if err != nil || n < 0 {
		return nil
	}
	return buffer[:n]
}
