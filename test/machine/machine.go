// Package machine boots a real systemd as PID 1 in namespaces of its own, to test
// units, sockets, packages and the journal as an operator uses them. It needs root and
// Linux 5.12; it downloads only the Debian files of a root, once.
//
// A machine lives in no file of the host, unless it has a disk (Options.Disk): its root is an overlay whose upper
// layer is a tmpfs in the machine's own mount namespace. Only its cgroup is
// visible outside. It dies with the process that started it.
package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

const (
	// setupTimeout bounds clone to exec of systemd, the installation of files included.
	setupTimeout = 2 * time.Minute
	// bootTimeout bounds exec of systemd to its READY=1.
	bootTimeout = 2 * time.Minute
	// closeTimeout bounds every single step of Close.
	closeTimeout = time.Minute
)

// ErrUnable is what Start's error is when no machine can run on this host, or
// none with that root.
var ErrUnable = errors.New("no machine can run here")

// Machine is a booted systemd. Its methods may be called from any goroutine.
type Machine struct {
	options   Options
	pid       int      // of its PID 1, as the host counts
	pidfd     *os.File // of its PID 1
	root      *os.File // O_PATH of the machine's /
	network   *os.File // its network namespace; nil when it is the host's
	console   *os.File // what systemd wrote before its journal was up
	cgroup    *cgroup
	exited    chan struct{} // closed when PID 1 was reaped
	transport *http.Transport

	closeOnce sync.Once
	closeErr  error
}

// Start boots root and returns when systemd has finished its start (its own READY=1)
// and is on the system bus. The error names the step that failed. ctx bounds the start
// only. The caller must Close the machine; if the caller dies, the kernel kills the
// machine.
func Start(ctx context.Context, root Root, options Options) (*Machine, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: not root", ErrUnable)
	}
	files, err := root.layout(ctx)
	if err != nil {
		return nil, err
	}
	sweep()
	m := &Machine{options: options, exited: make(chan struct{})}
	m.transport = m.newTransport()
	if options.Disk != "" && isDir(inside.UpperDir(options.Disk, 0)) {
		files.Late = nil // the disk has what the machine did with them
	}
	if err := m.start(ctx, inside.New(files, options)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, s inside.Spec) (err error) {
	if m.cgroup, err = newCgroup(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnable, err)
	}
	notify, err := m.spawn(ctx, s)
	if err != nil {
		return err
	}
	defer notify.Close()
	if err := m.awaitReady(ctx, notify); err != nil {
		return fmt.Errorf("%w%s", err, m.consoleTail())
	}
	if err := m.openHandles(s.ShareNetwork); err != nil {
		return err
	}
	if err := m.awaitBus(ctx); err != nil {
		return err
	}
	if err := m.uncoverSysctl(ctx); err != nil {
		return err
	}
	return m.link(s.Late)
}

// awaitReady reads systemd's own sd_notify messages until READY=1.
func (m *Machine) awaitReady(ctx context.Context, notify *net.UnixConn) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = notify.SetReadDeadline(time.Now()) })()
	go func() { // ends with the machine or with the wait
		select {
		case <-m.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	status, buf := "nothing", make([]byte, 4096)
	for {
		n, err := notify.Read(buf)
		if err != nil {
			return fmt.Errorf("cannot boot: systemd is not ready (last status: %s)", status)
		}
		fields := notifyFields(buf[:n])
		if fields["READY"] == "1" {
			return nil
		}
		if s := fields["STATUS"]; s != "" {
			status = s
		}
	}
}

func (m *Machine) openHandles(shared bool) (err error) {
	if m.root, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", m.pid), unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open the machine's root: %w", err)
	}
	if shared {
		return nil
	}
	if m.network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid)); err != nil {
		return fmt.Errorf("cannot open the machine's network: %w", err)
	}
	return nil
}

// uncoverSysctl removes the read-only cover that kept the starting systemd
// from raising the host's sysctls. While it is there, unprivileged user
// namespaces may not mount a proc of their own (user_namespaces(7)), and
// codex's sandbox does.
func (m *Machine) uncoverSysctl(ctx context.Context) error {
	_, stderr, err := m.Run(ctx, "umount", "--lazy", "/proc/sys") // lazily: units have begun with it
	if err != nil {
		return fmt.Errorf("cannot uncover /proc/sys: %w: %s", err, stderr)
	}
	return nil
}

// PID returns the machine's PID 1 as the host counts.
func (m *Machine) PID() int { return m.pid }

// Done is closed when the machine's PID 1 has died.
func (m *Machine) Done() <-chan struct{} { return m.exited }

// Close kills every process of the machine and removes its cgroup; its mounts
// and files go with its last process. It may be called more than once.
func (m *Machine) Close() error {
	m.closeOnce.Do(func() { m.closeErr = m.close() })
	return m.closeErr
}

func (m *Machine) close() error {
	m.transport.CloseIdleConnections()
	for _, f := range []*os.File{m.root, m.network, m.console} {
		if f != nil {
			_ = f.Close()
		}
	}
	if err := m.killInit(); err != nil {
		return err
	}
	if m.cgroup == nil {
		return nil
	}
	return m.cgroup.remove(closeTimeout)
}

func (m *Machine) killInit() error {
	if m.pidfd == nil {
		return nil
	}
	defer m.pidfd.Close()
	if err := unix.PidfdSendSignal(int(m.pidfd.Fd()), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill the machine: %w", err)
	}
	select {
	case <-m.exited:
		return nil
	case <-time.After(closeTimeout):
		return fmt.Errorf("cannot stop the machine: PID %d survives SIGKILL", m.pid)
	}
}
