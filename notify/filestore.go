package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// errNoManager is the error of the methods that need a service manager, of a nil Notifier.
var errNoManager = errors.New("there is no service manager: NOTIFY_SOCKET is not set")

// Store gives the service manager a copy of an open file, which the next main process of
// the unit inherits by that name (FDSTORE=1 of sd_notify(3)): InheritedFiles returns it
// there. It is for a command of ExecStartPre= in a unit with FileDescriptorStoreMax= and
// NotifyAccess=exec. The manager may not have the file yet when Store returns: call
// Barrier after the last one.
func (n *Notifier) Store(name string, file *os.File) error {
	// With FDPOLL=0 the manager keeps a socket after its peer has closed it.
	return n.sendFile(file, "FDSTORE=1\nFDPOLL=0\nFDNAME="+name)
}

// Forget has the service manager close the files stored under these names (FDSTOREREMOVE=1). A unit that starts again
// before it was inactive still has the files of its last start.
func (n *Notifier) Forget(names ...string) error {
	if n == nil {
		return errNoManager
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		if err := n.deliver("FDSTOREREMOVE=1", "FDNAME="+name); err != nil {
			return fmt.Errorf("cannot have the service manager forget the file %s: %w", name, err)
		}
	}
	return nil
}

// Barrier returns when the service manager has processed all messages before it
// (sd_notify_barrier(3)), or with an error when ctx ends.
func (n *Notifier) Barrier(ctx context.Context) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	err = n.sendFile(write, "BARRIER=1")
	_ = write.Close() // the manager has the other copy
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) })()
	_, err = read.Read(make([]byte, 1)) // io.EOF when the manager closes its copy
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the service manager has not answered: %w", context.Cause(ctx))
	}
	return nil
}

// sendFile sends a message with one file. net.UnixConn sends no control messages on a
// connected datagram socket, so the call is sendmsg(2).
func (n *Notifier) sendFile(file *os.File, message string) error {
	if n == nil {
		return errNoManager
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	to := &unix.SockaddrUnix{Name: n.socket.Name}
	var sent error
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Control(func(fd uintptr) {
		sent = unix.Sendmsg(socket, []byte(message), unix.UnixRights(int(fd)), to, 0)
	})
	if err := errors.Join(err, sent); err != nil {
		return fmt.Errorf("cannot pass %s to the service manager: %w", file.Name(), err)
	}
	return nil
}

// InheritedFiles returns the files that the service manager passed to this process, by name, marks them close-on-exec
// and removes LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES from the environment. Their order means nothing: systemd
// reverses the order of Store. A name that was passed twice is an error. It is to be called once, before Inherited and
// before other goroutines read the environment.
func InheritedFiles() (map[string]*os.File, error) {
	files := map[string]*os.File{}
	for _, f := range activation.Files(true) {
		if files[f.Name()] != nil {
			return nil, fmt.Errorf("cannot tell two inherited files of the name %q apart", f.Name())
		}
		files[f.Name()] = f
	}
	return files, nil
}
