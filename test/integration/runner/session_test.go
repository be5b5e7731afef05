package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/test/bed"
)

// TestRunnerEndings runs commands that end in each way as units, without a daemon: the unit alone writes down how
// they ended, and no process outlives it.
func TestRunnerEndings(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newRunnerBed(t, suite)
		s := b.session("endings", 1)
		t.Run("succeeds", func(t *testing.T) {
			e := s.run(shell("echo out; echo err >&2; echo end"))
			require.NotNil(t, e.result)
			assert.Nil(t, e.result.Failure)
			assert.True(t, e.result.Exited)
			assert.Zero(t, e.result.Status)
			assert.Empty(t, e.result.Cause)
			assert.ElementsMatch(t, []string{"out", "err", "end"}, strings.Fields(e.output))
			assert.EqualValues(t, len(e.output), e.result.Bytes)
			assert.Equal(t, []string{"success", "exited", "0"},
				[]string{e.ended.ServiceResult, e.ended.ExitCode, e.ended.ExitStatus})
			assert.Empty(t, e.ended.Refusal)
		})
		t.Run("fails", func(t *testing.T) {
			e := s.run(shell("exit 3"))
			require.NotNil(t, e.result)
			assert.Equal(t, 3, e.result.Status)
			assert.Equal(t, "success", e.ended.ServiceResult, "the unit has done its work")
		})
		t.Run("signals", func(t *testing.T) {
			for _, signal := range []unix.Signal{unix.SIGSEGV, unix.SIGKILL} {
				e := s.run(shell("kill -" + strings.TrimPrefix(unix.SignalName(signal), "SIG") + " $$"))
				require.NotNil(t, e.result)
				assert.True(t, e.result.Exited)
				assert.Equal(t, int(signal), e.result.Signal)
				assert.False(t, e.result.Core)
				assert.Equal(t, "success", e.ended.ServiceResult)
			}
		})
		t.Run("not found", func(t *testing.T) {
			spec := shell("")
			spec.Args = []string{"no-such-program"}
			e := s.run(spec)
			require.NotNil(t, e.result)
			require.NotNil(t, e.result.Failure)
			assert.Equal(t, session.NotFound, e.result.Failure.Stage)
			assert.Contains(t, e.result.Failure.Text, "cannot find the program no-such-program in PATH=/usr/")
			assert.Equal(t, "success", e.ended.ServiceResult)
		})
		t.Run("output limit", func(t *testing.T) {
			spec := shell("exec yes")
			spec.OutputLimit = 100_001
			e := s.run(spec)
			require.NotNil(t, e.result)
			assert.Equal(t, session.OutputLimit, e.result.Cause)
			assert.Len(t, e.output, 100_001)
			assert.EqualValues(t, 100_001, e.result.Bytes)
		})
		t.Run("the main process is killed", func(t *testing.T) {
			e := s.run(shell("sleep 4321 & kill -KILL $PPID; wait"))
			assert.Nil(t, e.result)
			assert.Equal(t, []string{"signal", "killed", "KILL"},
				[]string{e.ended.ServiceResult, e.ended.ExitCode, e.ended.ExitStatus})
		})
		t.Run("the main process is stopped", func(t *testing.T) {
			const dropIn = "/run/systemd/system/codex-session@.service.d/watchdog.conf"
			require.NoError(t, b.WriteFile(dropIn, []byte("[Service]\nWatchdogSec=1s\n"), 0o644))
			b.MustRun(t, "systemctl", "daemon-reload")
			e := s.run(shell("sleep 4321 & kill -STOP $PPID; wait"))
			assert.Nil(t, e.result)
			assert.Equal(t, []string{"watchdog", "killed", "KILL"},
				[]string{e.ended.ServiceResult, e.ended.ExitCode, e.ended.ExitStatus})
			b.MustRun(t, "rm", dropIn)
			b.MustRun(t, "systemctl", "daemon-reload")
		})
		t.Run("refused", func(t *testing.T) {
			spec := shell("exit 0")
			spec.Args = nil
			e := s.run(spec)
			assert.Nil(t, e.result)
			assert.Equal(t, "exit-code", e.ended.ServiceResult)
			assert.Equal(t, "the specification of the command is wrong: args is empty: name a command", e.ended.Refusal)
		})
	})
}

// TestRunnerTimeout has processes that ignore SIGTERM, leave the process group and hold the pipes: none outlives the
// grace. The time from its end until the last of them is gone is logged.
func TestRunnerTimeout(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		s := newRunnerBed(t, suite).session("timeout", 1)
		spec := shell(`trap "" TERM; (setsid sh -c "sleep 4321; :" &); (sleep 4322 &); echo running; while :; do sleep 4323; done`)
		spec.Timeout, spec.Grace = 300*time.Millisecond, 200*time.Millisecond
		e := s.run(spec)
		require.NotNil(t, e.result)
		assert.Equal(t, session.TimedOut, e.result.Cause)
		assert.False(t, e.result.Exited)
		assert.Equal(t, "running\n", e.output)
		assert.Equal(t, "success", e.ended.ServiceResult)
		processes, err := s.Processes("")
		require.NoError(t, err)
		for _, p := range processes {
			assert.NotContains(t, p.Command, "sleep 432")
		}
		t.Logf("%s: all processes were gone %v after the grace", suite,
			e.ended.Time.Sub(e.result.Started.Add(spec.Timeout+spec.Grace)))

		spec.Args[2] = "sleep 4321 & exec sleep 4322"
		e = s.run(spec)
		require.NotNil(t, e.result)
		assert.Equal(t, session.TimedOut, e.result.Cause)
		assert.Equal(t, int(unix.SIGTERM), e.result.Signal, "the command ends within its grace")

		// A process that holds the pipes does not keep the unit.
		e = s.run(shell("setsid sleep 4321 & echo done"))
		require.NotNil(t, e.result)
		assert.Zero(t, e.result.Status)
		assert.Empty(t, e.result.Cause)
		assert.Equal(t, "done\n", e.output)
		t.Logf("%s: all processes were gone %v after the command's end", suite, e.ended.Time.Sub(e.result.Ended))
	})
}

// TestRunnerCancel cancels a command over its control socket, and by systemd.
func TestRunnerCancel(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		s := newRunnerBed(t, suite).session("cancel", 1)
		s.next(shell("echo running; exec sleep 4321"))
		s.MustRun(t, "systemctl", "start", s.unit())
		status := s.writing(len("running\n"))
		assert.Positive(t, status["pid"])
		assert.NotContains(t, status, "cause")
		assert.Contains(t, s.ask(`{"version":1,"do":"dance"}`)["error"], "use cancel, status,")
		assert.Equal(t, "cancelled", s.ask(`{"version":1,"do":"cancel","by":"alice"}`)["cause"])
		s.MustRun(t, "systemctl", "stop", s.unit()) // waits for the end
		e := s.ending()
		require.NotNil(t, e.result)
		assert.Equal(t, []any{session.Cancelled, "alice", int(unix.SIGTERM)},
			[]any{e.result.Cause, e.result.CancelledBy, e.result.Signal})
		assert.Equal(t, "running\n", e.output)

		s.next(shell("exec sleep 4321"))
		s.MustRun(t, "systemctl", "start", s.unit())
		s.MustRun(t, "systemctl", "stop", s.unit())
		e = s.ending()
		require.NotNil(t, e.result)
		assert.Equal(t, []any{session.Cancelled, "systemd"}, []any{e.result.Cause, e.result.CancelledBy})
	})
}

// TestRunnerSandbox shows what a command has, and what it has not.
func TestRunnerSandbox(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newRunnerBed(t, suite)
		s := b.session("sandbox", 7)
		require.NoError(t, b.WriteFile(paths.Secrets+"/"+s.id+"/TOKEN", []byte("very secret\n"), 0o600))
		s.MustRun(t, "chown", "codex-runner", paths.Secrets+"/"+s.id+"/TOKEN")
		s.MustRun(t, "busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
			"org.freedesktop.systemd1.Manager", "SetUnitProperties", "sba(sv)", s.unit(), "true", "1", "TasksMax", "t", "77")
		e := s.run(shell(`echo $USER; pwd; echo $HOME; touch kept $HOME/kept && echo writable
cat $CREDENTIALS_DIRECTORY/secrets_TOKEN; cat /proc/self/oom_score_adj
ls /proc/self/fd | wc -l; touch /dev/shm/mine && ls /dev/shm
for p in /proc/$PPID/fd ` + strings.Join([]string{paths.StateDir, paths.RuntimeDir, paths.Sessions, paths.Workspaces,
			"/run/dbus"}, " ") + `; do ls $p 2>/dev/null || echo hidden; done
cat /etc/shadow 2>/dev/null || echo hidden`))
		require.NotNil(t, e.result)
		assert.Equal(t, strings.Split("cs-"+s.id+" /workspace /run/codex-home writable *** 500 4 mine"+
			strings.Repeat(" hidden", 7), " "), strings.Fields(e.output))

		e = s.run(shell("ls $HOME /workspace"))
		assert.Equal(t, 2, strings.Count(e.output, "kept"), "the next command finds both: %s", e.output)
		other := b.session("other", 7)
		e = other.run(shell("ls -A; touch mine && echo its slot"))
		assert.Equal(t, "its slot\n", e.output)
		e = s.run(shell("ls -A"))
		assert.Contains(t, e.ended.Refusal, "no workspace was made there for this session")
		score := b.MustRun(t, "systemd-analyze", "security", "--no-pager", "--threshold=18", s.unit())
		assert.Contains(t, score, "Overall exposure level")
	})
}
