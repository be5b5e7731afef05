// Package launch starts the server of the console as a process without rights, and is the beginning of that process.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the argument with which this program is the server.
const Command = "console-serve"

// nobody is the user of the server if root starts it: it owns nothing (systemd's UIDS-GIDS).
const nobody = 65534

// The descriptors of the server.
const (
	firstFD    = 3
	ordersFD   = firstFD
	listenerFD = 4
)

// endBound is how long the server may take to end.
const endBound = 2 * time.Second

// Child is a server that runs.
type Child struct {
	Orders net.Conn // from the server
	cmd    *exec.Cmd
	ended  chan error
}

// Start starts the server with a listener, and passes it text on standard input. If root starts it, it runs as nobody,
// in a network of its own in which it can reach nothing: connections come by the listener alone.
func Start(l *net.TCPListener, text string, stderr io.Writer) (*Child, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	listener, err := l.File()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer listener.Close()
	c := &Child{Orders: ours, ended: make(chan error, 1)}
	started := make(chan error, 1)
	go c.run(text, stderr, []*os.File{theirs, listener}, started)
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start the server of the console: %w", err), ours.Close())
	}
	return c, nil
}

func pair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "orders")
	defer file.Close()
	ours, err := net.FileConn(file)
	theirs := os.NewFile(uintptr(fds[1]), "orders")
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// run starts the server on a thread of its own, which gains no privilege by a program any more, and ends with the
// server: a process inherits that from the thread that starts it (PR_SET_NO_NEW_PRIVS, prctl(2)).
func (c *Child) run(text string, stderr io.Writer, files []*os.File, started chan<- error) {
	runtime.LockOSThread() // and never unlocked
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		started <- err
		return
	}
	// Nothing else that this process has inherited, such as a lock of a shell, goes to the server.
	if err := unix.CloseRange(firstFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		started <- err
		return
	}
	cmd, err := start(text, &printable{to: stderr, left: maxSaid}, files, os.Geteuid() == 0)
	c.cmd = cmd
	started <- err
	if err == nil {
		c.ended <- cmd.Wait()
	}
}

func start(text string, stderr io.Writer, files []*os.File, root bool) (*exec.Cmd, error) {
	command := func(flags uintptr) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", Command)
		cmd.Dir, cmd.Env, cmd.ExtraFiles, cmd.Stderr = "/", []string{}, files, stderr
		// A session of its own: Ctrl-C is for the process that started it, and no terminal is there to type into.
		cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, endBound
		if root {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
			cmd.SysProcAttr.Cloneflags = flags
		}
		return cmd
	}
	cmd := command(unix.CLONE_NEWNET | unix.CLONE_NEWIPC)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if root && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC)) { // a container, or a sysctl, forbids them
		fmt.Fprintf(stderr, "The server of the page has the network of this host: it gets no namespaces (%v).\n", err)
		cmd = command(0)
		if in, err = cmd.StdinPipe(); err == nil {
			err = cmd.Start()
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(in, text)
	return cmd, errors.Join(err, in.Close())
}

// Wait returns when the server has ended, or ctx. A server that does not end by itself then is killed.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case err := <-c.ended:
		return fmt.Errorf("the server of the console has ended: %w", errors.Join(err, io.EOF))
	case <-ctx.Done():
		_ = c.Orders.Close() // at which it ends
		kill := time.AfterFunc(endBound, func() { _ = c.cmd.Process.Kill() })
		defer kill.Stop()
		<-c.ended //nolint:errcheck // it was to end
		return nil
	}
}

// Inherited returns what the process that started this one has passed: the connection for orders, the listener, and the
// text. No process of the same user can look into this one from now on (PR_SET_DUMPABLE).
func Inherited(stdin io.Reader) (orders net.Conn, l net.Listener, text []byte, err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, nil, err
	}
	file, listener := os.NewFile(ordersFD, "orders"), os.NewFile(listenerFD, "listener")
	defer file.Close()
	defer listener.Close()
	if orders, err = net.FileConn(file); err == nil {
		l, err = net.FileListener(listener)
	}
	if err != nil {
		return nil, nil, nil, errors.New("this command is run by console")
	}
	text, err = io.ReadAll(io.LimitReader(stdin, 4096))
	return orders, l, text, err
}
