package namespaces

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// loopback switches the loopback interface of a new network namespace on (netdevice(7)).
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("cannot switch the loopback interface on: %w", err)
	}
	return nil
}

// offer listens where codex can connect to, passes the listeners on to the process that has started Init, and returns
// the port of the first one, which is for the model. The second one is for hands.
func offer(hands bool) (port string, err error) {
	addresses := []string{"127.0.0.1:0"}
	if hands {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(HandsPort)))
	}
	defer func() { _ = unix.Close(listenerFD) }()
	var fds []int
	for i := len(addresses) - 1; i >= 0; i-- { // so that no other one takes the fixed port
		l, err := net.Listen("tcp", addresses[i])
		if err != nil {
			return "", fmt.Errorf("cannot listen for codex: %w", err)
		}
		defer l.Close()
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			return "", err
		}
		defer file.Close()
		fds = append([]int{int(file.Fd())}, fds...)
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	if err := unix.Sendmsg(listenerFD, []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		return "", fmt.Errorf("cannot pass the listeners on: %w", err)
	}
	return port, nil
}

// withPort puts the port into the arguments.
func withPort(args []string, port string) []string {
	filled := make([]string, len(args))
	for i, arg := range args {
		filled[i] = strings.ReplaceAll(arg, ModelPort, port)
	}
	return filled
}

// Passage is the socket by which Init passes its listeners on.
type Passage struct {
	Theirs *os.File // Init inherits it as its first file
	ours   *os.File
}

// NewPassage makes a Passage.
func NewPassage() (*Passage, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	return &Passage{Theirs: os.NewFile(uintptr(fds[1]), "passage"), ours: os.NewFile(uintptr(fds[0]), "passage")}, nil
}

// Listeners waits for the listeners, of which the first one is for the model. It fails if Init has ended, or could not
// listen. Theirs must be closed.
func (p *Passage) Listeners() (all []net.Listener, err error) {
	defer p.ours.Close()
	rights := make([]byte, unix.CmsgSpace(mostListeners*4))
	n, size, _, _, err := unix.Recvmsg(int(p.ours.Fd()), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot receive the listeners: %w", err)
	}
	if n == 0 {
		return nil, errors.New("codex was not started")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("cannot receive the listeners: no descriptor came with them")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, errors.New("cannot receive the listeners: no descriptor came with them")
	}
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "listener")
		l, failed := net.FileListener(file)
		_ = file.Close()
		err = errors.Join(err, failed)
		all = append(all, l)
	}
	return all, err
}

// mostListeners is how many listeners Init passes on: for the model, and for hands.
const mostListeners = 2
