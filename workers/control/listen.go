package control

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// Listen opens the control socket at path, for its owner and root alone. It replaces
// the socket of a daemon that has ended or is about to hand over; the new socket stays
// where it is when the listener is closed. A file that is no socket is not replaced.
func Listen(path string) (net.Listener, error) {
	if is, err := os.Lstat(path); err == nil && is.Mode().Type() != os.ModeSocket {
		return nil, errors.New("cannot replace the control socket: there is a file that is none")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot replace the control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("cannot open the control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect the control socket: %w", err), l.Close())
	}
	return l, nil
}
