package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// longName is the longest that a worker may have. Its user has a shorter one.
const longName = "a-worker-whose-name-is-as-long-as-a-name-may-be-that-is-64-chars"

// A worker, or a tool in it, reaches nothing of another worker: no login, home, socket
// or memory, and cannot trace or kill it.
func TestWorkersApart(t *testing.T) { bothSuites(t, testWorkersApart) }

func testWorkersApart(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	b.openAI()
	b.logIn("default", "sk-first-SECRET")
	b.start()
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	require.NoError(t, b.WriteFile("/etc/credential", []byte("credential-SECRET"), 0o600))
	for _, name := range []string{"second", longName} {
		b.MustRun(t, "codex-proxy", "accounts", "add", name)
		b.dropIn("codex-worker@"+name+".service", "credential", "[Service]\nLoadCredential=key:/etc/credential\n")
		b.MustRun(t, "systemctl", "daemon-reload")
		b.logIn(name, "sk-"+name+"-SECRET")
	}
	first := b.inWorker("default")
	for _, name := range []string{"second", longName} {
		other := b.inWorker(name)
		require.NotEqual(t, first.uid, other.uid)
		first.assertCutOff(name, other)
		other.assertCutOff("default", first)
	}
	assert.Equal(t, "cw-default", b.show(workerUnit, "User")["User"])
	assert.Regexp(t, "^cw-[0-9a-f]{28}$", b.show("codex-worker@"+longName+".service", "User")["User"])
	assert.Empty(t, b.find("/", "-xdev", "-user", "codex-worker"),
		"the user of codex outside of units owns nothing")
	b.healthy()
}

// inside runs commands as a worker's user, with less confinement than the unit's: in
// the mounts of the unit, or in those of the machine, and without the filter of system
// calls.
type inside struct {
	*bed
	name, uid   string
	codex, shim int // as the machine counts
}

func (b *bed) inWorker(name string) inside {
	b.t.Helper()
	unit := "codex-worker@" + name + ".service"
	in := inside{bed: b, name: name, uid: b.uid(unit)}
	processes, err := b.Processes(unit)
	require.NoError(b.t, err)
	for _, p := range processes {
		if isCodex(p) {
			in.codex = p.Inside
		} else if strings.Contains(p.Command, "notify-exec") {
			in.shim = p.Inside
		}
	}
	require.NotZero(b.t, in.codex, "%+v", processes)
	require.NotZero(b.t, in.shim, "%+v", processes)
	return in
}

// places are the ways to run a command as the worker's user.
func (in inside) places() map[string][]string {
	as := []string{"setpriv", "--reuid=" + in.uid, "--regid=" + in.uid, "--groups=" + in.gid("codex-worker"),
		"--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"}
	return map[string][]string{
		"in the machine": as,
		"in its unit":    append([]string{"nsenter", fmt.Sprintf("--target=%d", in.codex), "--mount", "--"}, as...),
	}
}

func (b *bed) gid(group string) string {
	b.t.Helper()
	return strings.Split(b.MustRun(b.t, "getent", "group", group), ":")[2]
}

// assertCutOff tries to reach the other worker. Each attempt works on the worker itself,
// from its unit.
func (in inside) assertCutOff(name string, other inside) {
	in.t.Helper()
	for attempt, command := range attempts(name, other) {
		for place, as := range in.places() {
			out, _, err := in.Run(in.t.Context(), append(as, command...)...)
			assert.Error(in.t, err, "%s of %s, by %s %s: %s", attempt, name, in.name, place, out)
			assert.NotContains(in.t, out, "SECRET")
		}
	}
	for attempt, command := range attempts(in.name, in) {
		if strings.HasPrefix(attempt, "never ") {
			continue
		}
		_, stderr, err := in.Run(in.t.Context(), append(in.places()["in its unit"], command...)...)
		assert.NoError(in.t, err, "%s of itself, by %s: %s", attempt, in.name, stderr)
	}
}

// attempts are commands that succeed if they reach the worker. The ones named never must
// fail, and are not tried on the worker itself.
func attempts(name string, w inside) map[string][]string {
	home := "/var/lib/codex-worker/" + name
	connect := func(path string) []string {
		return []string{"perl", "-MIO::Socket::UNIX", "-e", `IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $!`, path}
	}
	proc := func(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }
	ptrace := `syscall($ARGV[0], 16, $ARGV[1], 0, 0) == 0 or die $!`
	list := map[string][]string{
		"login":                 {"cat", home + "/auth.json"},
		"home":                  {"ls", home + "/"},
		"settings":              {"cat", home + "/config.toml"},
		"write":                 {"touch", home + "/made"},
		"runtime directory":     {"ls", "/run/codex-worker/" + name},
		"app-server.sock":       connect("/run/codex-worker/" + name + "/app-server.sock"),
		"never NAME.sock":       connect("/run/codex-proxy/" + name + ".sock"),
		"never control socket":  connect("/run/codex-proxy/control/socket"),
		"private home":          {"ls", "/var/lib/private/codex-worker/" + name},
		"signal":                {"sh", "-c", fmt.Sprintf("kill -0 %d", w.codex)},
		"signal to the shim":    {"sh", "-c", fmt.Sprintf("kill -0 %d", w.shim)},
		"never memory of codex": {"head", "-c1", proc(w.codex, "mem")},
		"never trace of codex":  {"perl", "-e", ptrace, fmt.Sprint(unix.SYS_PTRACE), fmt.Sprint(w.codex)},
	}
	for _, file := range []string{"environ", "maps", "root/etc/hostname", "fd/0", "auxv"} {
		list["never "+file+" of codex"] = []string{"cat", proc(w.codex, file)}
		list["never "+file+" of the shim"] = []string{"cat", proc(w.shim, file)}
	}
	if name != "default" {
		list["credential"] = []string{"cat", "/run/credentials/codex-worker@" + name + ".service/key"}
	}
	return list
}
