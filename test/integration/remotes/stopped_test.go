package remotes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// Remotes that are stopped cost nothing but sockets of systemd: no process, no memory of their cgroups, and so nothing
// that wakes up.
func TestStoppedRemotes(t *testing.T) { bed.BothSuites(t, testStoppedRemotes) }

func testStoppedRemotes(t *testing.T, suite string) {
	const remotes = 50
	b := bed.New(t, suite, bed.RealWorker, "")
	first := bed.NewRemote(b, "r0", "", "")
	text, err := b.ReadFile(first.File)
	require.NoError(t, err)
	before := memoryOfSystemd(b)
	var sockets []string
	for i := 1; i < remotes; i++ {
		name := fmt.Sprint("r", i)
		require.NoError(t, b.WriteFile("/etc/codex-proxy/remotes/"+name+".toml", text, 0o644))
		sockets = append(sockets, "codex-remote@"+name+".socket")
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, append([]string{"systemctl", "start"}, sockets...)...)
	p := attach(first)
	require.NoError(t, b.Models.Script("text hello"))
	p.say("", "hi")
	p.until("turn/completed")
	assert.NotEmpty(t, processesOfRemotes(b), "one runs")
	p.Close(nil)
	b.MustRun(t, "codex-proxy", "remotes", "stop", "r0")

	assert.Empty(t, processesOfRemotes(b))
	listening := b.MustRun(t, "systemctl", "list-units", "--plain", "--no-legend", "--state=listening", "codex-remote@*.socket")
	assert.Equal(t, remotes, strings.Count(listening, "\n"), listening)
	for _, file := range []string{"memory.current", "pids.current"} {
		values := b.MustRun(t, "sh", "-c", `cat /sys/fs/cgroup/system.slice/system-codex*.slice/codex-remote@*.s*/`+file+` 2>/dev/null || true`)
		for _, value := range strings.Fields(values) {
			assert.Equal(t, "0", value, file)
		}
	}
	t.Logf("%s: PID 1 has %d KiB more for %d remotes", suite, memoryOfSystemd(b)-before, remotes-1)
}

// processesOfRemotes are those of all units of remotes.
func processesOfRemotes(b *bed.Bed) string {
	return b.MustRun(b.T, "sh", "-c", `cat /sys/fs/cgroup/system.slice/system-codex*.slice/codex-remote@*/cgroup.procs 2>/dev/null || true`)
}

// memoryOfSystemd is the private memory of the machine's PID 1, in KiB.
func memoryOfSystemd(b *bed.Bed) (kib int) {
	b.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	require.NoError(b.T, err)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(b.T, err)
	return kib
}
