package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Remotes that are stopped cost nothing but sockets of systemd: no process, no memory of their cgroups, and so nothing
// that wakes up.
func TestStoppedRemotes(t *testing.T) { bothSuites(t, testStoppedRemotes) }

func testStoppedRemotes(t *testing.T, suite string) {
	const remotes = 50
	b := newBed(t, suite, realWorker, "")
	first := b.remote("r0", "", "")
	text, err := b.ReadFile(first.file)
	require.NoError(t, err)
	before := b.memoryOfSystemd()
	var sockets []string
	for i := 1; i < remotes; i++ {
		name := fmt.Sprint("r", i)
		require.NoError(t, b.WriteFile("/etc/codex-proxy/remotes/"+name+".toml", text, 0o644))
		sockets = append(sockets, "codex-remote@"+name+".socket")
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, append([]string{"systemctl", "start"}, sockets...)...)
	p := first.attach()
	require.NoError(t, b.models.Script("text hello"))
	p.say("", "hi")
	p.until("turn/completed")
	assert.NotEmpty(t, b.processesOfRemotes(), "one runs")
	p.Close(nil)
	b.MustRun(t, "codex-proxy", "remotes", "stop", "r0")

	assert.Empty(t, b.processesOfRemotes())
	listening := b.MustRun(t, "systemctl", "list-units", "--plain", "--no-legend", "--state=listening", "codex-remote@*.socket")
	assert.Equal(t, remotes, strings.Count(listening, "\n"), listening)
	for _, file := range []string{"memory.current", "pids.current"} {
		values := b.MustRun(t, "sh", "-c", `cat /sys/fs/cgroup/system.slice/system-codex*.slice/codex-remote@*.s*/`+file+` 2>/dev/null || true`)
		for _, value := range strings.Fields(values) {
			assert.Equal(t, "0", value, file)
		}
	}
	t.Logf("%s: PID 1 has %d KiB more for %d remotes", suite, b.memoryOfSystemd()-before, remotes-1)
}

// processesOfRemotes are those of all units of remotes.
func (b *bed) processesOfRemotes() string {
	return b.MustRun(b.t, "sh", "-c", `cat /sys/fs/cgroup/system.slice/system-codex*.slice/codex-remote@*/cgroup.procs 2>/dev/null || true`)
}

// memoryOfSystemd is the private memory of the machine's PID 1, in KiB.
func (b *bed) memoryOfSystemd() (kib int) {
	b.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	require.NoError(b.t, err)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(b.t, err)
	return kib
}
