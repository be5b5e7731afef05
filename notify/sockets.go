package notify

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Sockets are the listening sockets that the service manager passed to this
// process, by name: FileDescriptorName= of the socket unit, by default the name
// of that unit. One name can have several.
type Sockets map[string][]net.Listener

// Inherited returns the sockets of sd_listen_fds(3), marks them close-on-exec and removes LISTEN_PID, LISTEN_FDS and
// LISTEN_FDNAMES from the environment. The result is empty without sockets or if they are for another process, and from
// the second call on. The service manager shares the sockets: closing one here does not close it there.
func Inherited() (Sockets, error) {
	sockets := Sockets{}
	var errs []error
	for _, f := range activation.Files(true) {
		// FileListener duplicates the descriptor and makes it non-blocking last.
		// Afterwards f may only be closed: File.Fd would make the shared socket
		// blocking again.
		l, err := net.FileListener(f)
		if err == nil {
			sockets[f.Name()] = append(sockets[f.Name()], l)
			err = accepts(l)
		}
		if err != nil {
			const format = "cannot listen on the inherited socket %q: %w (ListenStream= with Accept=no is wanted)"
			err = fmt.Errorf(format, f.Name(), err)
		}
		errs = append(errs, err, f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, sockets.Close())
	}
	return sockets, nil
}

// accepts is nil for a listening socket: FileListener also accepts unix datagram
// sockets and connections.
func accepts(l net.Listener) error {
	conn, ok := l.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%T has no descriptor", l)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	listening := 0
	control := raw.Control(func(fd uintptr) {
		listening, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	})
	if err == nil && listening == 0 {
		err = errors.New("it does not listen")
	}
	return errors.Join(err, control)
}

// Listeners returns the sockets passed under name. The error lists the passed names if name is not one of them.
func (s Sockets) Listeners(name string) ([]net.Listener, error) {
	if len(s[name]) > 0 {
		return s[name], nil
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("cannot find the inherited socket %q: the service manager passed none "+
			"(start the socket unit, and name it in Sockets= of the service)", name)
	}
	return nil, fmt.Errorf("cannot find the inherited socket %q among %s "+
		"(FileDescriptorName= of the socket unit sets the name)", name, strings.Join(slices.Sorted(maps.Keys(s)), ", "))
}

// Close closes all sockets.
func (s Sockets) Close() error {
	var errs []error
	for _, listeners := range s {
		for _, l := range listeners {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}
