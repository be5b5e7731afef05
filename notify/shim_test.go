package notify

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shim is a process that runs Exec, started as by systemd.
type shim struct {
	*manager
	cmd      *exec.Cmd
	dir      string
	socket   string       // the path of the inherited socket
	listener net.Listener // that socket, as the service manager keeps it
	stderr   bytes.Buffer
}

// newShim prepares a shim for a role with arguments. In probe and arguments DIR
// stands for the test's directory.
func newShim(t *testing.T, probe, relay string, role ...string) *shim {
	t.Helper()
	s := &shim{dir: t.TempDir()}
	s.manager = newManager(t, filepath.Join(s.dir, "notify"))
	self, err := os.Executable()
	require.NoError(t, err)
	// LISTEN_PID is the shim's own PID, which the shell sets before the exec.
	args := []string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", self, "shim", probe, relay, self}
	s.cmd = exec.Command("/bin/sh", append(args, role...)...)
	for i, arg := range s.cmd.Args {
		s.cmd.Args[i] = strings.ReplaceAll(arg, "DIR", s.dir)
	}
	s.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.address, "GOMAXPROCS=2")
	s.cmd.Stderr = &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = patience
	return s
}

// watched gives the unit a WatchdogSec=.
func (s *shim) watched(d time.Duration) *shim {
	s.cmd.Env = append(s.cmd.Env, "WATCHDOG_USEC="+strconv.FormatInt(d.Microseconds(), 10))
	return s
}

// listen passes a listening unix socket, as echo.socket.
func (s *shim) listen(t *testing.T) *shim {
	t.Helper()
	s.socket = filepath.Join(s.dir, "relay")
	var err error
	s.listener, err = net.Listen("unix", s.socket)
	require.NoError(t, err)
	t.Cleanup(func() { s.listener.Close() })
	f, err := s.listener.(*net.UnixListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return s.pass(f, "echo.socket")
}

func (s *shim) pass(f *os.File, name string) *shim {
	s.cmd.ExtraFiles = []*os.File{f}
	s.cmd.Env = append(s.cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES="+name)
	return s
}

func (s *shim) start(t *testing.T) *shim {
	t.Helper()
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		if t.Failed() {
			t.Log(s.stderr.String())
		}
	})
	return s
}

// wait returns the wait status of the shim, as waitpid(2) reports it.
func (s *shim) wait(t *testing.T) syscall.WaitStatus {
	t.Helper()
	var exit *exec.ExitError
	if err := s.cmd.Wait(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// output runs the shim to a successful end and returns its standard output.
func (s *shim) output(t *testing.T) string {
	t.Helper()
	out, err := s.cmd.Output()
	require.NoError(t, err, s.stderr.String())
	return string(out)
}

// startServer starts a shim around the echo server and waits for READY=1. It returns
// a connection to the server itself and the server's PID.
func startServer(t *testing.T, s *shim) (direct net.Conn, pid int) {
	t.Helper()
	s.start(t)
	require.Contains(t, s.until(t, "STATUS=Starting"), "READY=1")
	return dialServer(t, filepath.Join(s.dir, "server"))
}

func dialServer(t *testing.T, path string) (net.Conn, int) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte("p"))
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return conn, pid
}
