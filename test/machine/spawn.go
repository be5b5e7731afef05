package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// spawn clones this program into new namespaces, where setup turns it into
// systemd. It returns the socket on which systemd will send READY=1.
func (m *Machine) spawn(ctx context.Context, s inside.Spec) (*net.UnixConn, error) {
	talk, child, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer talk.Close()
	if m.console, err = memfile("console"); err != nil {
		return nil, errors.Join(err, child.Close())
	}
	err = m.clone(child, s.ShareNetwork)
	_ = child.Close()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = talk.SetDeadline(time.Now()) })()
	return m.handOver(talk, s)
}

// clone starts this program again as the machine's PID 1. Pdeathsig is sent
// when the *thread* that cloned ends (prctl(2)), so a goroutine keeps that
// thread until PID 1 is reaped.
func (m *Machine) clone(child *os.File, shareNetwork bool) error {
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	if !shareNetwork {
		flags |= unix.CLONE_NEWNET
	}
	pidfd := -1
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{inside.Name}, Env: []string{inside.Path}, Dir: "/",
		Stdout: m.console, Stderr: m.console, ExtraFiles: []*os.File{child},
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: flags, Setsid: true, Pdeathsig: unix.SIGKILL, PidFD: &pidfd,
			UseCgroupFD: true, CgroupFD: int(m.cgroup.dir.Fd()),
		},
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(m.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%w: cannot make namespaces: %w", ErrUnable, err)
	}
	m.pid, m.pidfd = cmd.Process.Pid, os.NewFile(uintptr(pidfd), "pidfd")
	return nil
}

// handOver sends the spec to the child and takes the notify socket it made
// inside the machine. The talk socket closes when systemd is executed.
func (m *Machine) handOver(talk *net.UnixConn, s inside.Spec) (*net.UnixConn, error) {
	if err := json.NewEncoder(talk).Encode(s); err != nil {
		return nil, fmt.Errorf("cannot set the machine up: %w%s", err, m.consoleTail())
	}
	var notify *net.UnixConn
	var failure strings.Builder
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := talk.ReadMsgUnix(buf, oob)
		if n > 0 && oobn > 0 && notify == nil {
			notify = receiveSocket(oob[:oobn])
			n = 0
		}
		failure.Write(buf[:n])
		if n == 0 && oobn == 0 || err != nil {
			break
		}
	}
	if failure.Len() == 0 && notify != nil {
		return notify, nil
	}
	if notify != nil {
		_ = notify.Close()
	}
	return nil, fmt.Errorf("cannot set the machine up: %s%s", failure.String(), m.consoleTail())
}

func receiveSocket(oob []byte) *net.UnixConn {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	unix.CloseOnExec(fds[0])
	conn, err := unixConn(fds[0], "notify")
	if err != nil {
		return nil
	}
	return conn
}

// consoleTail returns what PID 1 wrote outside the journal, for error texts.
func (m *Machine) consoleTail() string {
	if m.console == nil {
		return ""
	}
	buf := make([]byte, 64<<10)
	n, _ := m.console.ReadAt(buf, 0)
	text := strings.TrimSpace(string(buf[:n]))
	if text == "" {
		return ""
	}
	return "\nconsole:\n" + text[max(0, len(text)-4096):]
}

func notifyFields(message []byte) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(string(message)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			fields[key] = value
		}
	}
	return fields
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	child := os.NewFile(uintptr(fds[1]), "child")
	conn, err := unixConn(fds[0], "parent")
	if err != nil {
		return nil, nil, errors.Join(err, child.Close())
	}
	return conn, child, nil
}

// unixConn takes fd over.
func unixConn(fd int, name string) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("cannot use socket %s: %w", name, err)
	}
	return conn.(*net.UnixConn), nil
}

func memfile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a memory file: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
