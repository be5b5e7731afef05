package dependencies

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// A dependency reaches nothing of another dependency, of a worker or of the proxy.
func TestDependenciesApart(t *testing.T) { bed.BothSuites(t, testDependenciesApart) }

func testDependenciesApart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	bed.StartOpenAI(b)
	bed.LogIn(b, "default", "sk-first-SECRET")
	b.Start()
	bed.WriteProgram(b, "listener", bed.Listener)
	require.NoError(t, b.WriteFile("/etc/credential", []byte("credential-SECRET"), 0o600))
	for i, name := range []string{"first", "second"} {
		dependencyFile(b, name, fmt.Sprintf(`command = ["listener", "127.0.0.1:%d"]
prepare = ["sh", "-ec", "echo SECRET >{state}/data; mkdir -m 0700 {runtime}/closed"]
credentials = { key = "/etc/credential" }
[probe]
check = "tcp:127.0.0.1:%[1]d"
`, 7001+i))
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "enable", "--now", "codex-dependency@first", "codex-dependency@second")
	first, second := inDependency(b, "first"), inDependency(b, "second")
	require.NotEqual(t, first.UID, second.UID)
	assertCannot(first, "reach second", ofDependency("second", second))
	assertCannot(second, "reach first", ofDependency("first", first))
	assertCan(first, ofDependency("first", first))
	worker := bed.Attempts("default", bed.InWorker(b, "default"))
	worker["never API keys"] = []string{"cat", bed.KeyFile}
	worker["never state of the proxy"] = []string{"ls", "/var/lib/codex-proxy/"}
	assertCannot(first, "reach the worker", worker)
	bed.DoctorFindsNothing(b)
}

// inDependency is the server of a dependency, and the user for attempts.
func inDependency(b *bed.Bed, name string) bed.Inside {
	b.T.Helper()
	unit := "codex-dependency@" + name + ".service"
	in := bed.Inside{Bed: b, Name: name, UID: bed.UID(b, unit)}
	processes, err := b.Processes(unit)
	require.NoError(b.T, err)
	for _, p := range processes {
		if isShim(p) {
			in.Shim = p.Inside
		} else {
			in.Codex = p.Inside
		}
	}
	require.NotZero(b.T, in.Codex, "%+v", processes)
	require.NotZero(b.T, in.Shim, "%+v", processes)
	return in
}

func isShim(p machine.Process) bool { return strings.Contains(p.Command, "notify-exec") }

// ofDependency are commands that succeed if they reach the dependency. The ones named
// never must fail on the dependency itself, too, or are not worth a try.
func ofDependency(name string, d bed.Inside) map[string][]string {
	state := "/var/lib/codex-dependency/" + name
	list := map[string][]string{
		"data":               {"cat", state + "/data"},
		"state":              {"ls", state + "/"},
		"write":              {"touch", state + "/made"},
		"lock":               {"cat", state + "/.lock"},
		"runtime":            {"touch", "/run/codex-dependency/" + name + "/made"},
		"closed runtime":     {"ls", "/run/codex-dependency/" + name + "/closed"},
		"credential":         {"cat", "/run/credentials/codex-dependency@" + name + ".service/key"},
		"signal":             {"sh", "-c", fmt.Sprintf("kill -0 %d", d.Codex)},
		"signal to the shim": {"sh", "-c", fmt.Sprintf("kill -0 %d", d.Shim)},
	}
	for _, file := range []string{"environ", "maps", "root/etc/hostname", "mem"} {
		list["never "+file] = []string{"head", "-c1", fmt.Sprintf("/proc/%d/%s", d.Codex, file)}
		list["never "+file+" of the shim"] = []string{"head", "-c1", fmt.Sprintf("/proc/%d/%s", d.Shim, file)}
	}
	return list
}

// assertCannot runs each command as the dependency's user, in its unit's mounts and in the machine's.
func assertCannot(in bed.Inside, what string, attempts map[string][]string) {
	in.T.Helper()
	for attempt, command := range attempts {
		for place, as := range asDependency(in) {
			out, _, err := in.Run(in.T.Context(), append(as, command...)...)
			assert.Error(in.T, err, "%s: %s, by %s %s: %s", what, attempt, in.Name, place, out)
			assert.NotContains(in.T, out, "SECRET")
		}
	}
}

// assertCan runs each command but those named never in the unit's mounts.
func assertCan(in bed.Inside, attempts map[string][]string) {
	in.T.Helper()
	for attempt, command := range attempts {
		if strings.HasPrefix(attempt, "never ") {
			continue
		}
		_, stderr, err := in.Run(in.T.Context(), append(asDependency(in)["in its unit"], command...)...)
		assert.NoError(in.T, err, "%s of itself, by %s: %s", attempt, in.Name, stderr)
	}
}

func asDependency(in bed.Inside) map[string][]string {
	as := []string{"setpriv", "--reuid=" + in.UID, "--regid=" + in.UID, "--clear-groups", "--inh-caps=-all",
		"--bounding-set=-all", "--no-new-privs", "--"}
	return map[string][]string{
		"in the machine": as,
		"in its unit":    append([]string{"nsenter", fmt.Sprintf("--target=%d", in.Codex), "--mount", "--"}, as...),
	}
}
