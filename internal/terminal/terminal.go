// Package terminal makes a program's terminal the terminal of a remote program: raw, with its size.
package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNone means that a stream is no terminal.
var ErrNone = errors.New("it is no terminal")

// Terminal is an open terminal. Read and Write may run in different goroutines.
type Terminal struct {
	*os.File
	before *unix.Termios // nil while it is as it was
}

// Open opens the terminal of a stream once more, so that Close ends a Read, which the stream itself would not. Streams
// that are no file are no terminals.
func Open(stream any) (*Terminal, error) {
	file, ok := stream.(*os.File)
	if !ok {
		return nil, ErrNone
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil, ErrNone
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_RDWR|unix.O_NOCTTY, 0)
	t := &Terminal{File: again}
	if errors.Is(err, fs.ErrPermission) {
		t, err = controlling(file, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the terminal: %w", err)
	}
	return t, nil
}

// controlling opens the controlling terminal, if that is the one of file. After su(1) the terminal belongs to another
// user, and every user may open this one (tty(4)). denied is the error about another terminal.
func controlling(file *os.File, denied error) (*Terminal, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, err
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, denied
	}
	t, device := &Terminal{File: tty}, uint32(0)
	err = t.control(func(fd int) (err error) {
		device, err = unix.IoctlGetUint32(fd, unix.TIOCGDEV)
		return err
	})
	if err != nil || uint64(device) != stat.Rdev {
		return nil, errors.Join(denied, tty.Close())
	}
	return t, nil
}

// Raw passes on each character as it is typed, also Ctrl-C, and shows none by itself, until Restore (cfmakeraw of
// termios(3)).
func (t *Terminal) Raw() error {
	if t.before != nil {
		return nil
	}
	before, err := t.attributes()
	if err != nil {
		return err
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := t.set(&raw); err != nil {
		return err
	}
	t.before = before
	return nil
}

// Restore undoes Raw.
func (t *Terminal) Restore() error {
	if t.before == nil {
		return nil
	}
	err := t.set(t.before)
	t.before = nil
	return err
}

// Size returns the rows and columns, 0 and 0 if they are not known.
func (t *Terminal) Size() (rows, columns uint16) {
	_ = t.control(func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			rows, columns = size.Row, size.Col
		}
		return err
	})
	return rows, columns
}

func (t *Terminal) attributes() (a *unix.Termios, err error) {
	err = t.control(func(fd int) (err error) {
		a, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return a, err
}

// set applies attributes when the output is written (TCSADRAIN of termios(3)).
func (t *Terminal) set(a *unix.Termios) error {
	return t.control(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETSW, a) })
}

// control calls do with the descriptor, which stays in the poller: Fd would take it out.
func (t *Terminal) control(do func(fd int) error) error {
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("cannot control the terminal: %w", failed)
	}
	return nil
}

// EndReading ends a Read that waits, and all later ones until ResumeReading.
func (t *Terminal) EndReading() error { return t.SetReadDeadline(time.Unix(1, 0)) }

// ResumeReading undoes EndReading.
func (t *Terminal) ResumeReading() error { return t.SetReadDeadline(time.Time{}) }
