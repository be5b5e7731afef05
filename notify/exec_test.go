package notify

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExecLifecycle(t *testing.T) {
	s := newShim(t, "DIR/server", "-", "server", "DIR/server").start(t)
	assert.Regexp(t, `^READY=1\nSTATUS=Ready: echo, started in [\d.]+m?s$`, s.until(t, "STATUS=Starting: "))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, "STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=Stopping: SIGTERM", s.next(t))
	assert.Regexp(t, `^STATUS=Ended: exit status 5 after `, s.next(t))
	assert.Equal(t, 5, s.wait(t).ExitStatus())
	assert.Empty(t, s.pending(t))
}

// A probe that comes too late on a busy machine says so, and then says that the command answers again.
const late, again = "STATUS=Not answering", "STATUS=Ready: echo, answering again"

func TestExecWatchdog(t *testing.T) {
	s := newShim(t, "DIR/server", "-", "server", "DIR/server").watched(time.Minute)
	s.cmd.Env = append(s.cmd.Env, "SHIM_INTERVAL=200ms")
	_, pid := startServer(t, s)
	for range 3 {
		require.Equal(t, "WATCHDOG=1", s.until(t, late, again))
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	for withheld := 0; withheld < 2; { // after both of two failures
		switch message := s.until(t, again); message {
		case "WATCHDOG=1":
			withheld = 0
		default:
			require.Regexp(t, `^STATUS=Not answering for .*: context deadline exceeded$`, message)
			withheld++
		}
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	assert.Regexp(t, `^STATUS=Ready: echo, answering again after .*s$`, s.until(t, late))
	assert.Equal(t, "WATCHDOG=1", s.next(t))

	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	assert.Equal(t, "STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=Stopping: SIGINT", s.until(t, "WATCHDOG=1", late, again))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) // it ignores SIGINT
	assert.Regexp(t, `^STATUS=Ended: SIGKILL after `, s.next(t))
	assert.Equal(t, syscall.SIGKILL, s.wait(t).Signal())
	assert.Empty(t, s.pending(t), "a ping after STOPPING=1")
}

func TestExecEndsLikeTheCommand(t *testing.T) {
	for _, code := range []int{0, 1, 78, 203, 255} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			status := newShim(t, "-", "-", "exit", strconv.Itoa(code)).start(t).wait(t)
			assert.True(t, status.Exited())
			assert.Equal(t, code, status.ExitStatus())
		})
	}
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGABRT,
		syscall.SIGBUS, syscall.SIGFPE, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGPIPE,
		syscall.SIGALRM, syscall.SIGTERM, syscall.SIGXFSZ, syscall.SIGSYS, 40,
	} {
		t.Run(signalName(sig), func(t *testing.T) {
			t.Parallel()
			s := newShim(t, "-", "-", "die", strconv.Itoa(int(sig))).start(t)
			status := s.wait(t)
			require.True(t, status.Signaled(), "exit status %d\n%s", status.ExitStatus(), &s.stderr)
			assert.Equal(t, sig, status.Signal())
			assert.False(t, status.CoreDump())
		})
	}
}

func TestExecCannotStart(t *testing.T) {
	for program, reason := range map[string]string{
		"/nowhere/codex": `cannot start "/nowhere/codex": no such file or directory`,
		"no-such-codex":  `cannot start "no-such-codex": executable file not found in $PATH`,
		"/etc/passwd":    `cannot start "/etc/passwd": permission denied`,
	} {
		_, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{Args: []string{program}})
		assert.EqualError(t, err, reason)
	}
}

// A terminal and KillMode=control-group signal whole groups; the command must not
// get a second SIGTERM because of that.
func TestExecForwardsOnce(t *testing.T) {
	s := newShim(t, "-", "-", "signals")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.start(t)
	lines := bufio.NewReader(out)
	line := func() string {
		text, err := lines.ReadString('\n')
		require.NoError(t, err)
		return text
	}
	require.Equal(t, "up\n", line())
	assert.Contains(t, s.next(t), "READY=1")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	assert.Equal(t, "SIGHUP\n", line())
	require.NoError(t, syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM))
	assert.Equal(t, "SIGTERM\n", line())
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGABRT))
	assert.Equal(t, "SIGABRT\n", line())
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	assert.Equal(t, "SIGUSR1\n", line())
	assert.Equal(t, 7, s.wait(t).ExitStatus())

	assert.Contains(t, s.next(t), "STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=Stopping: SIGTERM")
	assert.Contains(t, s.next(t), "STATUS=Stopping: SIGABRT")
}

// A stop signal also ends a command that is stopped (SIGSTOP).
func TestExecEndsFrozenCommand(t *testing.T) {
	for sig, status := range map[syscall.Signal]string{
		syscall.SIGTERM: "exit status 5",
		syscall.SIGABRT: "exit status 2", // of the Go runtime of the stand-in
	} {
		s := newShim(t, "DIR/server", "-", "server", "DIR/server")
		_, pid := startServer(t, s)
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		require.NoError(t, s.cmd.Process.Signal(sig))
		assert.Contains(t, s.next(t), "STOPPING=1")
		assert.Contains(t, s.next(t), "STATUS=Ended: "+status)
		s.wait(t)
	}
}

// hang is a WatchdogSec= after whose one and a half a command that hangs is killed, and not before that on a busy machine.
const hang = 4 * time.Second

// Exec ends a command that hangs while its unit is being stopped: the watchdog is off.
func TestExecEndsHungCommand(t *testing.T) {
	t.Parallel()
	s := newShim(t, "DIR/server", "-", "server", "DIR/server").watched(hang)
	_, pid := startServer(t, s)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	assert.Regexp(t, `^STATUS=Ended: SIGKILL after `, s.until(t, "WATCHDOG=1", late, again))
	assert.Equal(t, syscall.SIGKILL, s.wait(t).Signal())
	assert.Contains(t, s.stderr.String(), "the command hangs and the watchdog rests: it is killed")
}

func TestExecStoppedBeforeReady(t *testing.T) {
	s := newShim(t, "DIR/nobody", "-", "signals")
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.start(t)
	require.Regexp(t, "^STATUS=Starting: ", s.next(t))
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Contains(t, s.until(t, "STATUS=Starting: "), "STOPPING=1")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	assert.Equal(t, 7, s.wait(t).ExitStatus())
}

func TestExecCommandDiesWithUs(t *testing.T) {
	s := newShim(t, "DIR/server", "-", "server", "DIR/server")
	direct, _ := startServer(t, s)
	require.NoError(t, s.cmd.Process.Kill())
	_, err := direct.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

func TestExecCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	self, err := os.Executable()
	require.NoError(t, err)
	status, err := Exec(ctx, nil, slog.New(slog.DiscardHandler), Command{
		Args: []string{self, "server", path},
		Ready: []Probe{func(ctx context.Context) (string, error) {
			err := echo(ctx, path)
			if err == nil {
				cancel()
			}
			return "echo", err
		}},
	})
	require.NoError(t, err)
	assert.Equal(t, 5, status.ExitStatus())
}

// A command that does not end within StopTimeout is killed.
func TestExecEndsLateCommand(t *testing.T) {
	deaf := filepath.Join(t.TempDir(), "deaf")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	status, err := Exec(ctx, nil, slog.New(slog.DiscardHandler), Command{
		Args: []string{"sh", "-c", `trap "" TERM; touch "$0"; exec sleep 1000`, deaf},
		Ready: []Probe{func(context.Context) (string, error) {
			_, err := os.Stat(deaf)
			if err == nil {
				cancel()
			}
			return "deaf", err
		}},
		StopTimeout: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	assert.Equal(t, syscall.SIGKILL, status.Signal())
}
