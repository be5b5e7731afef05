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

// offer listens where codex can connect to, passes the listener on to the process that has started Init, and returns
// its port.
func offer() (port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot listen for codex: %w", err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	defer func() { _ = unix.Close(listenerFD) }()
	if err := unix.Sendmsg(listenerFD, []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
		return "", fmt.Errorf("cannot pass the listener on: %w", err)
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// withPort puts the port into the arguments.
func withPort(args []string, port string) []string {
	filled := make([]string, len(args))
	for i, arg := range args {
		filled[i] = strings.ReplaceAll(arg, ModelPort, port)
	}
	return filled
}

// Passage is the socket by which Init passes its listener on.
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

// Listener waits for the listener. It fails if Init has ended, or could not listen. Theirs must be closed.
func (p *Passage) Listener() (net.Listener, error) {
	defer p.ours.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(int(p.ours.Fd()), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot receive the listener: %w", err)
	}
	if n == 0 {
		return nil, errors.New("codex was not started")
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("cannot receive the listener: no descriptor came with it")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("cannot receive the listener: no descriptor came with it")
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer file.Close()
	return net.FileListener(file)
}
