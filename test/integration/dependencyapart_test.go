package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// A dependency reaches nothing of another dependency, of a worker or of the proxy.
func TestDependenciesApart(t *testing.T) { bothSuites(t, testDependenciesApart) }

func testDependenciesApart(t *testing.T, suite string) {
	b := newBed(t, suite, plainWorker, "")
	b.openAI()
	b.logIn("default", "sk-first-SECRET")
	b.start()
	b.program("listener", listener)
	require.NoError(t, b.WriteFile("/etc/credential", []byte("credential-SECRET"), 0o600))
	for i, name := range []string{"first", "second"} {
		b.dependencyFile(name, fmt.Sprintf(`command = ["listener", "127.0.0.1:%d"]
prepare = ["sh", "-ec", "echo SECRET >{state}/data; mkdir -m 0700 {runtime}/closed"]
credentials = { key = "/etc/credential" }
[probe]
check = "tcp:127.0.0.1:%[1]d"
`, 7001+i))
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "enable", "--now", "codex-dependency@first", "codex-dependency@second")
	first, second := b.inDependency("first"), b.inDependency("second")
	require.NotEqual(t, first.uid, second.uid)
	first.assertCannot("reach second", ofDependency("second", second))
	second.assertCannot("reach first", ofDependency("first", first))
	first.assertCan(ofDependency("first", first))
	worker := attempts("default", b.inWorker("default"))
	worker["never API keys"] = []string{"cat", keyFile}
	worker["never state of the proxy"] = []string{"ls", "/var/lib/codex-proxy/"}
	first.assertCannot("reach the worker", worker)
	b.healthy()
}

// inDependency is the server of a dependency, and the user for attempts.
func (b *bed) inDependency(name string) inside {
	b.t.Helper()
	unit := "codex-dependency@" + name + ".service"
	in := inside{bed: b, name: name, uid: b.uid(unit)}
	processes, err := b.Processes(unit)
	require.NoError(b.t, err)
	for _, p := range processes {
		if isShim(p) {
			in.shim = p.Inside
		} else {
			in.codex = p.Inside
		}
	}
	require.NotZero(b.t, in.codex, "%+v", processes)
	require.NotZero(b.t, in.shim, "%+v", processes)
	return in
}

func isShim(p machine.Process) bool { return strings.Contains(p.Command, "notify-exec") }

// ofDependency are commands that succeed if they reach the dependency. The ones named
// never must fail on the dependency itself, too, or are not worth a try.
func ofDependency(name string, d inside) map[string][]string {
	state := "/var/lib/codex-dependency/" + name
	list := map[string][]string{
		"data":               {"cat", state + "/data"},
		"state":              {"ls", state + "/"},
		"write":              {"touch", state + "/made"},
		"lock":               {"cat", state + "/.lock"},
		"runtime":            {"touch", "/run/codex-dependency/" + name + "/made"},
		"closed runtime":     {"ls", "/run/codex-dependency/" + name + "/closed"},
		"credential":         {"cat", "/run/credentials/codex-dependency@" + name + ".service/key"},
		"signal":             {"sh", "-c", fmt.Sprintf("kill -0 %d", d.codex)},
		"signal to the shim": {"sh", "-c", fmt.Sprintf("kill -0 %d", d.shim)},
	}
	for _, file := range []string{"environ", "maps", "root/etc/hostname", "mem"} {
		list["never "+file] = []string{"head", "-c1", fmt.Sprintf("/proc/%d/%s", d.codex, file)}
		list["never "+file+" of the shim"] = []string{"head", "-c1", fmt.Sprintf("/proc/%d/%s", d.shim, file)}
	}
	return list
}

// assertCannot runs each command as the dependency's user, in its unit's mounts and in the machine's.
func (in inside) assertCannot(what string, attempts map[string][]string) {
	in.t.Helper()
	for attempt, command := range attempts {
		for place, as := range in.asDependency() {
			out, _, err := in.Run(in.t.Context(), append(as, command...)...)
			assert.Error(in.t, err, "%s: %s, by %s %s: %s", what, attempt, in.name, place, out)
			assert.NotContains(in.t, out, "SECRET")
		}
	}
}

// assertCan runs each command but those named never in the unit's mounts.
func (in inside) assertCan(attempts map[string][]string) {
	in.t.Helper()
	for attempt, command := range attempts {
		if strings.HasPrefix(attempt, "never ") {
			continue
		}
		_, stderr, err := in.Run(in.t.Context(), append(in.asDependency()["in its unit"], command...)...)
		assert.NoError(in.t, err, "%s of itself, by %s: %s", attempt, in.name, stderr)
	}
}

func (in inside) asDependency() map[string][]string {
	as := []string{"setpriv", "--reuid=" + in.uid, "--regid=" + in.uid, "--clear-groups", "--inh-caps=-all",
		"--bounding-set=-all", "--no-new-privs", "--"}
	return map[string][]string{
		"in the machine": as,
		"in its unit":    append([]string{"nsenter", fmt.Sprintf("--target=%d", in.codex), "--mount", "--"}, as...),
	}
}
