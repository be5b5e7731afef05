package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNested boots a machine inside a machine by running this very test
// program there, which also is how it behaves on a host with cgroup2 alone.
func TestNested(t *testing.T) {
	t.Parallel()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	outer := Boot(t, Debian("trixie"), Options{
		Binds: []Bind{{Source: filepath.Join(cache, "codex-proxy"),
			Target: "/root/.cache/codex-proxy", ReadOnly: true}},
	})
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, outer.CopyIn(program, "/opt/machine.test"))

	// A program that another test has started meanwhile may have the file open for writing still, but not a copy of it.
	outer.MustRun(t, "cp", "/opt/machine.test", "/opt/copy.test")
	out, _, err := outer.Run(t.Context(), "env", RequireEnv+"=1", "/opt/copy.test", "-test.v",
		"-test.run=^(TestExec|TestHost|TestEveryCommandIsInside)$")
	require.NoError(t, err, out)
	assert.Contains(t, out, "--- PASS: TestExec")
	assert.Contains(t, out, "--- PASS: TestHost")
	assert.Contains(t, out, "--- PASS: TestEveryCommandIsInside")
	assert.Empty(t, outer.MustRun(t, "sh", "-c", "ls -d /sys/fs/cgroup/"+cgroupPrefix+"* 2>/dev/null || true"))
}

// TestEveryCommandIsInside runs a command that has, in the machine, the number that its PID 1 has outside. In a machine
// inside a machine that number is small.
func TestEveryCommandIsInside(t *testing.T) {
	t.Parallel()
	m := Boot(t, Host(), Options{})
	m.MustRun(t, "touch", "/run/inside")
	m.MustRun(t, "sh", "-c", "echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid", "sh", strconv.Itoa(m.PID()))
	m.MustRun(t, "test", "-e", "/run/inside")
}
