package exec

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pty is a pseudoterminal (pty(7)). It needs nothing but four calls of ioctl(2).
type pty struct {
	master *os.File // of the program that shows the terminal
	slave  *os.File // of the processes in it
	fd     int      // of master, which stays non-blocking
}

func openPTY(rows, columns uint16) (*pty, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	p := &pty{fd: fd, master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = p.resize(rows, columns)
	}
	var number int
	if err == nil {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err == nil {
		p.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a terminal: %w", err), p.master.Close())
	}
	return p, nil
}

// resize sets the size of the window; its processes get SIGWINCH.
func (p *pty) resize(rows, columns uint16) error {
	return unix.IoctlSetWinsize(p.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}

// rest returns the output that is there, without waiting for more.
func (p *pty) rest(buffer []byte) []byte {
	n, err := unix.Read(p.fd, buffer)
	if err != nil || n < 0 {
		return nil
	}
	return buffer[:n]
}
