package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oomShim is a shim in a cgroup whose memory.events the test writes.
func oomShim(t *testing.T, watchdog time.Duration) (s *shim, kills func(n int)) {
	t.Helper()
	events := filepath.Join(t.TempDir(), "memory.events")
	kills = func(n int) {
		text := fmt.Appendf(nil, "low 0\nhigh 0\nmax 4\noom 1\noom_kill %d\noom_group_kill 0\n", n)
		require.NoError(t, os.WriteFile(events+".new", text, 0o600))
		require.NoError(t, os.Rename(events+".new", events))
	}
	kills(3) // of another run of the unit
	s = newShim(t, "DIR/server", "-", "server", "DIR/server").watched(watchdog)
	s.cmd.Env = append(s.cmd.Env, "MEMORY_EVENTS="+events)
	return s, kills
}

func TestExecOutOfMemory(t *testing.T) {
	s, kills := oomShim(t, time.Minute)
	_, pid := startServer(t, s)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP)) // so that it cannot answer before the SIGKILL
	kills(4)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	last := s.until(t, "WATCHDOG=1", late, again)
	assert.Regexp(t, `^STATUS=Ended: SIGKILL after .*s, out of memory\nERRNO=12$`, last)
	assert.Equal(t, syscall.SIGKILL, s.wait(t).Signal(), "the shim ends as the command did")
	assert.Contains(t, s.stderr.String(), "out of memory: the command was killed")
}

// A process that the command has started is killed, and the command answers after it.
func TestExecOutlivesAnOutOfMemory(t *testing.T) {
	s, kills := oomShim(t, time.Minute)
	s.cmd.Env = append(s.cmd.Env, "SHIM_INTERVAL=200ms")
	_, pid := startServer(t, s)
	kills(4)
	for range 3 { // a ping, and a probe, may have been under way
		require.Equal(t, "WATCHDOG=1", s.until(t, late, again))
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Regexp(t, `^STATUS=Ended: SIGKILL after [^,]*$`, s.until(t, "WATCHDOG=1", late, again))
	s.wait(t)
	const line = `"out of memory: a process that the command has started was killed" processes=1`
	assert.Contains(t, s.stderr.String(), line)
	assert.NotContains(t, s.stderr.String(), "the command was killed")
}

// A command that the shim itself has killed was not killed for lack of memory.
func TestExecHungIsNotOutOfMemory(t *testing.T) {
	t.Parallel()
	s, kills := oomShim(t, hang)
	_, pid := startServer(t, s)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	kills(4)
	assert.Regexp(t, `^STATUS=Ended: SIGKILL after [^,]*$`, s.until(t, "WATCHDOG=1", late, again))
	s.wait(t)
}

func TestMemoryEvents(t *testing.T) {
	assert.Regexp(t, `^(/sys/fs/cgroup/.*/?memory\.events)?$`, MemoryEvents())
	assert.Zero(t, newOOMKills("/nowhere/memory.events").count())
	assert.False(t, newOOMKills("").fatal())
}
