package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	variable   = "CODEX_PROXY_HANDOFF" // holds descriptor
	descriptor = 3

	// maxSockets fit into one packet by far (SCM_MAX_FD is 253).
	maxSockets = 64
	// takeBound is for the steps in which neither side has anything to wait
	// for but the other.
	takeBound = 5 * time.Second
)

// peer is one end of the pair.
type peer struct {
	conn    *net.UnixConn
	version int // of the other process
	logger  *slog.Logger
}

func newPeer(f *os.File, logger *slog.Logger) (*peer, error) {
	c, err := net.FileConn(f) // a duplicate
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("it is a %T", c), c.Close(), f.Close())
	}
	return &peer{conn: conn, logger: logger}, f.Close()
}

func newPair(logger *slog.Logger) (ours *peer, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "handoff")
	ours, err = newPeer(os.NewFile(uintptr(fds[0]), "handoff"), logger)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

func (p *peer) send(m packet, fds ...int) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(takeBound)); err != nil {
		return err
	}
	_, _, err = p.conn.WriteMsgUnix(data, rights, nil)
	return err
}

// sendBody sends a message that follows the hand-off. The other process may have ended,
// and then nothing is lost.
func (p *peer) sendBody(kind Kind, body any) {
	m := packet{Kind: wireKind(kind, p.version)}
	if body != nil {
		m.State, _ = json.Marshal(body) // plain data: it has no error
	}
	_ = p.send(m)
}

// receive returns the next message and the descriptors sent with it.
func (p *peer) receive() (packet, []int, error) {
	var m packet
	data, rights := make([]byte, packetLimit), make([]byte, unix.CmsgSpace(4*maxSockets))
	n, r, _, _, err := p.conn.ReadMsgUnix(data, rights)
	if err != nil {
		return m, nil, err
	}
	fds, err := passedFDs(rights[:r])
	return m, fds, errors.Join(err, json.Unmarshal(data[:n], &m))
}

func passedFDs(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// await returns the next message of one of these kinds, and takes over its version. It
// ignores all others.
func (p *peer) await(kinds ...Kind) (packet, error) {
	for {
		m, _, err := p.receive()
		if err != nil {
			return m, err
		}
		if slices.Contains(kinds, m.Kind) {
			p.version = m.Version
			return m, nil
		}
		p.ignore(m.Kind, m.Version)
	}
}

// ignore logs a message that this program does not know.
func (p *peer) ignore(kind Kind, version int) {
	p.logger.Warn("a message of the other process of a reload is ignored: its kind is unknown",
		"kind", string(kind), "version", version)
}

// follow calls handle with each message that follows the hand-off, until the socket
// closes or ctx ends. handle reports whether it knows the kind. newsKind returns the
// kind of news from a process of version 0.
func (p *peer) follow(ctx context.Context, newsKind func(json.RawMessage) Kind, handle func(Message) (known bool)) {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		m, fds, err := p.receive()
		if err != nil {
			return
		}
		if m.Kind == news && m.Version == 0 {
			m.Kind = newsKind(m.State)
		}
		files := filesOf(fds)
		if !handle(Message{Kind: m.Kind, Version: m.Version, Body: m.State, Files: files}) {
			for _, f := range files {
				_ = f.Close() // of a socket, which the other process believes to be here
			}
			p.ignore(m.Kind, m.Version)
		}
	}
}

func filesOf(fds []int) (files []*os.File) {
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "handoff"))
	}
	return files
}
