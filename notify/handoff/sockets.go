package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"codex-proxy/notify"
)

// sendSockets sends hello. It passes no os.File: the method Fd would make the sockets blocking for both processes.
func (p *peer) sendSockets(sockets notify.Sockets, state any) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return err
	}
	m := packet{Kind: hello, State: raw}
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(sockets)) {
		for _, l := range sockets[name] {
			fd, err := duplicate(l)
			if err != nil {
				return fmt.Errorf("cannot share the socket %q: %w", name, err)
			}
			m.Names, fds = append(m.Names, name), append(fds, fd)
		}
	}
	return p.send(m, fds...)
}

func duplicate(l net.Listener) (int, error) {
	conn, ok := l.(syscall.Conn)
	if !ok {
		return -1, fmt.Errorf("%T has no descriptor", l)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	copied := -1
	control := raw.Control(func(fd uintptr) { copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	return copied, errors.Join(err, control)
}

// receiveSockets receives hello, and takes over its version.
func (p *peer) receiveSockets() (notify.Sockets, json.RawMessage, error) {
	m, fds, err := p.receive()
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	if err == nil && (m.Kind != hello || len(m.Names) != len(fds)) {
		err = fmt.Errorf("%q came with %d sockets for %d names", m.Kind, len(fds), len(m.Names))
	}
	p.version = m.Version
	sockets := notify.Sockets{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "handoff")
		if err == nil {
			var l net.Listener
			if l, err = net.FileListener(f); err == nil {
				sockets[m.Names[i]] = append(sockets[m.Names[i]], l)
			}
		}
		_ = f.Close()
	}
	if err != nil {
		return nil, nil, errors.Join(err, sockets.Close())
	}
	return sockets, m.State, nil
}
