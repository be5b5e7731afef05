package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A hand-off replaces the running process of a unit by one of the installed
// program. The two talk over a pair of sockets, one JSON object per packet:
//
//	old → new  hello   with the listening sockets (SCM_RIGHTS), their names, and
//	                   what the new one must know before it could serve
//	new → old  ready   it could serve now; or failed, and why
//	           the old one makes the new one the unit's main process
//	old → new  take    with what the new one should remember
//	new → old  taken   it serves, and has said READY=1
//	new → old  drain, hasten: what the service manager wants of the unit
//	new ↔ old  news: what has changed and concerns the other one, too
//
// The end of a process is the end of its socket. Until it has sent take, the old
// process can go back at any time: nothing has changed but that a process more
// runs.
type message struct {
	Kind    string          `json:"kind"`
	Names   []string        `json:"names,omitempty"`   // hello: one for each socket
	Serving bool            `json:"serving,omitempty"` // ready: requests would succeed
	Text    string          `json:"text,omitempty"`    // ready: the status; failed: the reason
	State   json.RawMessage `json:"state,omitempty"`   // hello, take, news
}

const (
	handoffEnv = "CODEX_PROXY_HANDOFF"
	handoffFD  = 3

	// packetLimit bounds one message, and so what can be remembered.
	packetLimit = 128 << 10
	// maxSockets is what fits into one packet by far (SCM_MAX_FD is 253).
	maxSockets = 64
	// takeBound is for the steps in which neither side has anything to wait
	// for but the other.
	takeBound = 5 * time.Second
)

// peer is one end of the pair.
type peer struct{ conn *net.UnixConn }

func newPeer(f *os.File) (peer, error) {
	c, err := net.FileConn(f) // a duplicate
	if err != nil {
		return peer{}, errors.Join(err, f.Close())
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return peer{}, errors.Join(fmt.Errorf("it is a %T", c), c.Close(), f.Close())
	}
	return peer{conn}, f.Close()
}

func newPair() (ours peer, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return peer{}, nil, err
	}
	theirs = os.NewFile(uintptr(fds[1]), "handoff")
	ours, err = newPeer(os.NewFile(uintptr(fds[0]), "handoff"))
	if err != nil {
		return peer{}, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

func (m message) packet() ([]byte, error) {
	packet, err := json.Marshal(m)
	if err == nil && len(packet) > packetLimit {
		err = fmt.Errorf("a message of %d bytes is too long", len(packet))
	}
	return packet, err
}

func (p peer) send(m message, fds ...int) error {
	packet, err := m.packet()
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
	_, _, err = p.conn.WriteMsgUnix(packet, rights, nil)
	return err
}

func (p peer) tell(news any) {
	if raw, err := json.Marshal(news); err == nil {
		_ = p.send(message{Kind: "news", State: raw}) // the other may have ended
	}
}

// receive returns the next message and the descriptors that came with it.
func (p peer) receive() (message, []int, error) {
	var m message
	packet, rights := make([]byte, packetLimit), make([]byte, unix.CmsgSpace(4*maxSockets))
	n, r, _, _, err := p.conn.ReadMsgUnix(packet, rights)
	if err != nil {
		return m, nil, err
	}
	fds, err := passedFDs(rights[:r])
	return m, fds, errors.Join(err, json.Unmarshal(packet[:n], &m))
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

// sendSockets shares the sockets. It goes around os.File, whose Fd method would
// make them blocking for both processes.
func (p peer) sendSockets(sockets Sockets, state any) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return err
	}
	hello := message{Kind: "hello", State: raw}
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
			hello.Names, fds = append(hello.Names, name), append(fds, fd)
		}
	}
	return p.send(hello, fds...)
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

// receiveSockets is the other side of sendSockets.
func (p peer) receiveSockets() (Sockets, json.RawMessage, error) {
	hello, fds, err := p.receive()
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	if err == nil && (hello.Kind != "hello" || len(hello.Names) != len(fds)) {
		err = fmt.Errorf("%q came with %d sockets for %d names", hello.Kind, len(fds), len(hello.Names))
	}
	sockets := Sockets{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "handoff")
		if err == nil {
			var l net.Listener
			if l, err = net.FileListener(f); err == nil {
				sockets[hello.Names[i]] = append(sockets[hello.Names[i]], l)
			}
		}
		_ = f.Close()
	}
	if err != nil {
		return nil, nil, errors.Join(err, sockets.Close())
	}
	return sockets, hello.State, nil
}
