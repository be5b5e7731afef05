package journal

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stream writes to the socket of the journal's stream, and drops lines that the socket
// does not accept at once: the journal may stand still for long. Other processes share
// the socket, so stream does not make it non-blocking.
type stream struct{ raw syscall.RawConn }

func newStream(stderr io.Writer) io.Writer {
	if f, ok := stderr.(*os.File); ok {
		if raw, err := f.SyscallConn(); err == nil {
			return stream{raw}
		}
	}
	return stderr
}

// Write implements io.Writer.
func (s stream) Write(b []byte) (n int, err error) {
	failed := s.raw.Write(func(fd uintptr) (done bool) {
		n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	})
	if failed != nil {
		return 0, failed
	}
	return max(n, 0), err
}
