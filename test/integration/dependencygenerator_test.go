package integration

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

	"codex-proxy/test/machine"
	"codex-proxy/units"
)

const generator = "/usr/lib/systemd/system-generators/codex-units"

// listening is the file of a dependency that listens on a port of this machine.
func listening(port int) string {
	return fmt.Sprintf("command = [\"listener\", \"127.0.0.1:%d\"]\n[probe]\ncheck = \"tcp:127.0.0.1:%[1]d\"\n", port)
}

// A daemon-reload makes the units of the files. A file with a fault fails its own unit alone, with the fault.
func TestDependencyGenerator(t *testing.T) { bothSuites(t, testDependencyGenerator) }

func testDependencyGenerator(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.program("listener", listener)
	b.dependencyFile("good", listening(7001))
	b.dependencyFile("bad", "comand = 1\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	good, bad, none := units.Dependency("good"), units.Dependency("bad"), units.Dependency("none")
	b.MustRun(t, "systemctl", "start", good)
	pid := b.show(good, "MainPID")["MainPID"]

	b.assertInvalid(bad, `/etc/codex-proxy/dependencies/bad.toml:1: unknown key "comand" (did you mean "command"?)`)
	b.assertInvalid(none, "/etc/codex-proxy/dependencies/none.toml: there is no such file")

	b.assertStale(good, false)
	b.dependencyFile("good", "stop_timeout = \"21s\"\n"+listening(7001))
	b.assertStale(good, true)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.assertStale(good, false)
	assert.Equal(t, "21s", b.show(good, "TimeoutStopUSec")["TimeoutStopUSec"])

	b.dependencyFile("good", "comand = 1\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, map[string]string{"ActiveState": "active", "MainPID": pid}, b.show(good, "ActiveState", "MainPID"),
		"what runs does not notice")
	b.assertInvalid(good, `/etc/codex-proxy/dependencies/good.toml:1: unknown key "comand"`)
	b.dependencyFile("good", listening(7001))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "start", good)

	for i := range 32 {
		b.dependencyFile(fmt.Sprintf("many-%d", i), listening(8000+i))
	}
	b.assertFaultsAreLogged()
	b.assertGeneratorIsQuick(34)
	b.assertGeneratorNeedsNothing()
}

// assertInvalid asserts that a restart of the unit fails with the fault of its file, once.
func (b *bed) assertInvalid(unit, fault string) {
	b.t.Helper()
	_, _, err := b.Run(b.t.Context(), "systemctl", "restart", unit)
	require.Error(b.t, err, unit)
	assert.Equal(b.t, map[string]string{"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0"},
		b.show(unit, "ActiveState", "ExecMainStatus", "NRestarts"), unit)
	status, _, _ := b.Run(b.t.Context(), "systemctl", "status", "--no-pager", "--full", unit)
	assert.Contains(b.t, status, fault)
}

// assertStale asserts whether systemctl warns that it has not read the file.
func (b *bed) assertStale(unit string, stale bool) {
	b.t.Helper()
	_, warning, err := b.Run(b.t.Context(), "systemctl", "status", unit)
	require.NoError(b.t, err)
	assert.Equal(b.t, stale, strings.Contains(warning, "changed on disk. Run 'systemctl daemon-reload'"), warning)
}

// assertFaultsAreLogged asserts that the kernel's log has the fault of a file, and that systemd sees no failure of the
// generator. A machine of the tests has no /dev/kmsg.
func (b *bed) assertFaultsAreLogged() {
	b.t.Helper()
	log := b.MustRun(b.t, "unshare", "--mount", "sh", "-ec", `mkdir /run/logged; touch /run/kmsg
		mkdir /run/dev; mount --rbind /dev /run/dev; mount -t tmpfs none /dev; touch /dev/kmsg
		SYSTEMD_SCOPE=system `+generator+` /run/logged /run/logged /run/logged 2>/run/kmsg
		cat /dev/kmsg; cmp /dev/kmsg /run/kmsg`)
	assert.Regexp(b.t, `^<4>codex-units\[\d+\]: /etc/codex-proxy/dependencies/bad.toml:1: unknown key "comand" `+
		`\(did you mean "command"\?\)\n$`, log)
	journal, err := b.Journal(b.t.Context(), "--grep=codex-units failed", "--quiet")
	assert.Empty(b.t, journal, err)
}

// assertGeneratorIsQuick logs the time of the generator, which every boot waits for.
func (b *bed) assertGeneratorIsQuick(files int) {
	b.t.Helper()
	const runs = 20
	_, times, err := b.Run(b.t.Context(), "bash", "-c", `mkdir /run/made; TIMEFORMAT='%R %U %S'
		time for ((run = 0; run < $1; run++)); do "$0" /run/made /run/made /run/made 2>/dev/null; done`,
		generator, strconv.Itoa(runs))
	var took, user, system float64
	_, scanned := fmt.Sscan(times, &took, &user, &system)
	require.NoError(b.t, scanned, "%s: %v", times, err)
	b.t.Logf("the generator with %d files: %.1f ms, of the CPU %.1f ms", files, took/runs*1000,
		(user+system)/runs*1000)
	assert.Less(b.t, (user+system)/runs, 1.0)
}

// assertGeneratorNeedsNothing runs it as early in a boot, without variables, services or a file system to write to but
// the directory that it gets.
func (b *bed) assertGeneratorNeedsNothing() {
	b.t.Helper()
	b.MustRun(b.t, "unshare", "--mount", "--net", "sh", "-ec", `
		mkdir -p /run/generated; mount -t tmpfs none /run/generated
		mkdir /run/generated/root; mount --bind / /run/generated/root
		mount -o remount,bind,ro / ; mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o ro none /run/dbus
		! touch /made 2>/dev/null
		env -i `+generator+` /run/generated/normal /run/generated/early /run/generated/late </dev/null
		test -e /run/generated/normal/codex-dependency@good.service.d/50-settings.conf`)
	b.MustRun(b.t, "unshare", "--mount", "sh", "-ec", `
		mount -t tmpfs none /etc/codex-proxy; mkdir /run/empty
		`+generator+` /run/empty /run/empty /run/empty; rmdir /run/empty`)
}

// A dependency that is enabled starts at boot: the generator needs no service. A file with a fault fails no boot.
func TestDependencyAtBoot(t *testing.T) { bothSuites(t, testDependencyAtBoot) }

func testDependencyAtBoot(t *testing.T, suite string) {
	requireCodex(t)
	tree := t.TempDir()
	out, err := exec.Command("dpkg-deb", "--extract", os.Getenv("CODEX_PROXY_TEST_DEB"), tree).CombinedOutput()
	require.NoError(t, err, string(out))
	const unit = "/usr/lib/systemd/system/codex-dependency@.service"
	program := filepath.Join(t.TempDir(), "listener")
	require.NoError(t, os.WriteFile(program, []byte(listener), 0o755))
	files := t.TempDir()
	require.NoError(t, os.WriteFile(files+"/boots.toml", []byte(listening(7001)), 0o644))
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
