package remotenotify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// receiveBound is how long the sender of a notice may take: it is on the same machine.
const receiveBound = 5 * time.Second

// errNoPage means that nobody subscribes to pushes.
var errNoPage = errors.New("no page for other machines is open, whose people it is for: " +
	"systemctl enable --now codex-console.socket")

// Push sends a notice to the socket at path, for people with browsers. It does not wait: a notice for which there is no
// room is lost.
func Push(path string, n Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		_, err = unix.SendmsgN(fd, text, nil, nil, unix.MSG_NOSIGNAL) // a notice fits into the buffer of a socket
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return errors.New("too many wait already")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return errNoPage
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Receive reads the notice of a connection that Push has made.
func Receive(conn net.Conn) (n Notice, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(receiveBound)); err != nil {
		return n, err
	}
	err = json.NewDecoder(io.LimitReader(conn, maxNotice)).Decode(&n)
	return n, err
}

// Sender is the process that has made the connection, as the kernel knows it (SO_PEERCRED of unix(7)).
func Sender(conn net.Conn) (pid int32, err error) {
	of, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is no unix socket", conn)
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return 0, err
	}
	control := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = cred.Pid
		}
	})
	return pid, errors.Join(control, err)
}
