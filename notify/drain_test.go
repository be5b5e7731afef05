package notify

import (
	"bufio"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SIGTERM waits for the connections of the relay, which accepts no more.
func TestExecDrains(t *testing.T) {
	s := newShim(t, "DIR/server", "echo.socket", "server", "DIR/server").listen(t)
	s.cmd.Env = append(s.cmd.Env, "SHIM_DRAIN=1")
	startServer(t, s)
	conn, _ := dialServer(t, s.socket)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, "STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=Stopping: what runs is finished", s.next(t))
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err, "the connection goes on")
	late, err := net.Dial("unix", s.socket)
	require.NoError(t, err)
	defer late.Close()
	conn.Close()
	assert.Regexp(t, `^STATUS=Ended: SIGHUP after `, s.next(t))
	assert.Equal(t, syscall.SIGHUP, s.wait(t).Signal())

	require.NoError(t, s.listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience)))
	waiting, err := s.listener.Accept()
	require.NoError(t, err, "the late connection waits for the next start")
	waiting.Close()
}

// A command that is to rest ends when the relay has no connection; a connection that
// comes meanwhile waits for the next start.
func TestExecRests(t *testing.T) {
	s := newShim(t, "DIR/server", "echo.socket", "server", "DIR/server").listen(t)
	s.cmd.Env = append(s.cmd.Env, "SHIM_REST=1")
	startServer(t, s)
	conn, _ := dialServer(t, s.socket)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, "STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=Stopping: nothing runs", s.next(t))
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err, "the connection goes on")
	late, err := net.Dial("unix", s.socket)
	require.NoError(t, err)
	defer late.Close()
	conn.Close()
	assert.Regexp(t, `^STATUS=Ended: SIGHUP after `, s.next(t))
	assert.Equal(t, syscall.SIGHUP, s.wait(t).Signal())
	require.NoError(t, s.listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience)))
	waiting, err := s.listener.Accept()
	require.NoError(t, err, "the late connection waits for the next start")
	waiting.Close()
}

// Without connections SIGTERM takes effect at once. A second one becomes SIGINT, and
// another signal is passed on unchanged.
func TestExecDrainIsHastened(t *testing.T) {
	s := newShim(t, "-", "-", "signals")
	s.cmd.Env = append(s.cmd.Env, "SHIM_DRAIN=1")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.start(t)
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	for _, c := range []struct {
		sent syscall.Signal
		want string
	}{{syscall.SIGTERM, "SIGHUP"}, {syscall.SIGTERM, "SIGINT"}, {syscall.SIGABRT, "SIGABRT"}} {
		require.NoError(t, s.cmd.Process.Signal(c.sent))
		require.True(t, lines.Scan())
		assert.Equal(t, c.want, lines.Text())
	}
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	assert.Equal(t, 7, s.wait(t).ExitStatus())
}

// The SIGTERM of a stop does not drain. It becomes another signal for the command,
// which may have blocked SIGTERM.
func TestExecDoesNotDrainForAStop(t *testing.T) {
	s := newShim(t, "-", "-", "signals")
	s.cmd.Env = append(s.cmd.Env, "SHIM_DRAIN=1", "SHIM_STOPPED=1")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.start(t)
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	assert.Equal(t, "SIGINT", lines.Text())
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	assert.Equal(t, 7, s.wait(t).ExitStatus())
}

func TestExecBlocksSIGTERM(t *testing.T) {
	for env, want := range map[string]string{"SHIM_BLOCK=1": "4", "SHIM_BLOCK=": "0"} {
		s := newShim(t, "-", "-", "x")
		self := len(s.cmd.Args) - 2
		s.cmd.Args = append(s.cmd.Args[:self], "/bin/grep", "^SigBlk:.*"+want+"...$", "/proc/self/status")
		s.cmd.Env = append(s.cmd.Env, env)
		assert.NotEmpty(t, s.output(t), env)
	}
}
