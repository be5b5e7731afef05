package dependencies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/units"
)

const generator = "/usr/lib/systemd/system-generators/codex-units"

// A daemon-reload makes the units of the files. A file with a fault fails its own unit alone, with the fault.
func TestDependencyGenerator(t *testing.T) { bed.BothSuites(t, testDependencyGenerator) }

func testDependencyGenerator(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	bed.WriteProgram(b, "listener", bed.Listener)
	dependencyFile(b, "good", bed.Listening(7001))
	dependencyFile(b, "bad", "comand = 1\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	good, bad, none := units.Dependency("good"), units.Dependency("bad"), units.Dependency("none")
	b.MustRun(t, "systemctl", "start", good)
	pid := b.Properties(good, "MainPID")["MainPID"]

	assertInvalid(b, bad, `/etc/codex-proxy/dependencies/bad.toml:1: unknown key "comand" (did you mean "command"?)`)
	assertInvalid(b, none, "/etc/codex-proxy/dependencies/none.toml: there is no such file")

	assertStale(b, good, false)
	dependencyFile(b, "good", "stop_timeout = \"21s\"\n"+bed.Listening(7001))
	assertStale(b, good, true)
	b.MustRun(t, "systemctl", "daemon-reload")
	assertStale(b, good, false)
	assert.Equal(t, "21s", b.Properties(good, "TimeoutStopUSec")["TimeoutStopUSec"])

	dependencyFile(b, "good", "comand = 1\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, map[string]string{"ActiveState": "active", "MainPID": pid}, b.Properties(good, "ActiveState", "MainPID"),
		"what runs does not notice")
	assertInvalid(b, good, `/etc/codex-proxy/dependencies/good.toml:1: unknown key "comand"`)
	dependencyFile(b, "good", bed.Listening(7001))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "start", good)

	for i := range 32 {
		dependencyFile(b, fmt.Sprintf("many-%d", i), bed.Listening(8000+i))
	}
	assertFaultsAreLogged(b)
	assertGeneratorIsQuick(b, 34)
	assertGeneratorNeedsNothing(b)
}

// assertInvalid asserts that a restart of the unit fails with the fault of its file, once.
func assertInvalid(b *bed.Bed, unit, fault string) {
	b.T.Helper()
	_, _, err := b.Run(b.T.Context(), "systemctl", "restart", unit)
	require.Error(b.T, err, unit)
	assert.Equal(b.T, map[string]string{"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0"},
		b.Properties(unit, "ActiveState", "ExecMainStatus", "NRestarts"), unit)
	status, _, _ := b.Run(b.T.Context(), "systemctl", "status", "--no-pager", "--full", unit)
	assert.Contains(b.T, status, fault)
}

// assertStale asserts whether systemctl warns that it has not read the file.
func assertStale(b *bed.Bed, unit string, stale bool) {
	b.T.Helper()
	_, warning, err := b.Run(b.T.Context(), "systemctl", "status", unit)
	require.NoError(b.T, err)
	assert.Equal(b.T, stale, strings.Contains(warning, "changed on disk. Run 'systemctl daemon-reload'"), warning)
}

// assertFaultsAreLogged asserts that the kernel's log has the fault of a file, and that systemd sees no failure of the
// generator. A machine of the tests has no /dev/kmsg.
func assertFaultsAreLogged(b *bed.Bed) {
	b.T.Helper()
	log := b.MustRun(b.T, "unshare", "--mount", "sh", "-ec", `mkdir /run/logged; touch /run/kmsg
		mkdir /run/dev; mount --rbind /dev /run/dev; mount -t tmpfs none /dev; touch /dev/kmsg
		SYSTEMD_SCOPE=system `+generator+` /run/logged /run/logged /run/logged 2>/run/kmsg
		cat /dev/kmsg; cmp /dev/kmsg /run/kmsg`)
	assert.Regexp(b.T, `^<4>codex-units\[\d+\]: /etc/codex-proxy/dependencies/bad.toml:1: unknown key "comand" `+
		`\(did you mean "command"\?\)\n$`, log)
	journal, err := b.Journal(b.T.Context(), "--grep=codex-units failed", "--quiet")
	assert.Empty(b.T, journal, err)
}

// assertGeneratorIsQuick logs the time of the generator, which every boot waits for.
func assertGeneratorIsQuick(b *bed.Bed, files int) {
	b.T.Helper()
	const runs = 20
	_, times, err := b.Run(b.T.Context(), "bash", "-c", `mkdir /run/made; TIMEFORMAT='%R %U %S'
		time for ((run = 0; run < $1; run++)); do "$0" /run/made /run/made /run/made 2>/dev/null; done`,
		generator, strconv.Itoa(runs))
	var took, user, system float64
	_, scanned := fmt.Sscan(times, &took, &user, &system)
	require.NoError(b.T, scanned, "%s: %v", times, err)
	b.T.Logf("the generator with %d files: %.1f ms, of the CPU %.1f ms", files, took/runs*1000,
		(user+system)/runs*1000)
	assert.Less(b.T, (user+system)/runs, 1.0)
}

// assertGeneratorNeedsNothing runs it as early in a boot, without variables, services or a file system to write to but
// the directory that it gets.
func assertGeneratorNeedsNothing(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "unshare", "--mount", "--net", "sh", "-ec", `
		mkdir -p /run/generated; mount -t tmpfs none /run/generated
		mkdir /run/generated/root; mount --bind / /run/generated/root
		mount -o remount,bind,ro / ; mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /run/dbus
		! touch /made 2>/dev/null
		env -i `+generator+` /run/generated/normal /run/generated/early /run/generated/late </dev/null
		test -e /run/generated/normal/codex-dependency@good.service.d/50-settings.conf`)
	b.MustRun(b.T, "unshare", "--mount", "sh", "-ec", `
		mount -t tmpfs none /etc/codex-proxy; mkdir /run/empty
		`+generator+` /run/empty /run/empty /run/empty; rmdir /run/empty`)
}

// A dependency that is enabled starts at boot: the generator needs no service. A file with a fault fails no boot.
func TestDependencyAtBoot(t *testing.T) { bed.BothSuites(t, testDependencyAtBoot) }

func testDependencyAtBoot(t *testing.T, suite string) {
	bed.RequireCodex(t)
	tree := t.TempDir()
	out, err := exec.Command("dpkg-deb", "--extract", os.Getenv("CODEX_PROXY_TEST_DEB"), tree).CombinedOutput()
	require.NoError(t, err, string(out))
	const unit = "/usr/lib/systemd/system/codex-dependency@.service"
	program := filepath.Join(t.TempDir(), "listener")
	require.NoError(t, os.WriteFile(program, []byte(bed.Listener), 0o755))
	files := t.TempDir()
	require.NoError(t, os.WriteFile(files+"/boots.toml", []byte(bed.Listening(7001)), 0o644))
	require.NoError(t, os.WriteFile(files+"/bad.toml", []byte("comand = 1\n"), 0o644))
	m := machine.Boot(t, machine.Debian(suite), machine.Options{
		Install: []machine.Entry{
			{Path: "/usr/bin/codex-proxy", Source: filepath.Join(tree, "usr/bin/codex-proxy"), Mode: 0o755},
			{Path: generator, Source: filepath.Join(tree, generator), Mode: 0o755},
			{Path: unit, Source: filepath.Join(tree, unit), Mode: 0o644},
			{Path: "/usr/local/bin/listener", Source: program, Mode: 0o755},
			{Path: "/etc/codex-proxy/dependencies/boots.toml", Source: files + "/boots.toml", Mode: 0o644},
			{Path: "/etc/codex-proxy/dependencies/bad.toml", Source: files + "/bad.toml", Mode: 0o644},
			{Path: "/etc/systemd/system/multi-user.target.wants/codex-dependency@boots.service", Link: unit},
		},
		Units: []string{"codex*"},
	})
	m.MustRun(t, "systemctl", "start", "multi-user.target") // waits for the end of the boot
	state, err := m.Show(t.Context(), "codex-dependency@boots.service", "ActiveState", "NRestarts")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"ActiveState": "active", "NRestarts": "0"}, state)
}
