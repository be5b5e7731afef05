package dependencies

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// TestDependencyCommands takes the real Temporal from its preset to its removal, by the commands alone. The daemon does
// not run.
func TestDependencyCommands(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		program := machine.Bind{Source: requireTemporal(t), Target: "/opt/temporal", ReadOnly: true}
		b := commandsBed{bed.New(t, suite, bed.RealWorker, "", program)}
		b.add()
		b.withoutRoot()
		b.checkStopped()
		b.startAndList()
		b.watch()
		b.faults()
		b.remove()
	})
}

type commandsBed struct{ *bed.Bed }

const temporalFile = "/etc/codex-proxy/dependencies/temporal.toml"

// dependencies runs a command, which must succeed, and returns its whole output.
func (b commandsBed) dependencies(words ...string) string {
	b.T.Helper()
	out, stderr, err := b.Run(b.T.Context(), append([]string{"codex-proxy", "dependencies"}, words...)...)
	require.NoError(b.T, err, stderr)
	return out + stderr
}

// fails runs a command, which must fail with the status, and returns its errors.
func (b commandsBed) fails(status string, words ...string) string {
	b.T.Helper()
	script := `codex-proxy dependencies "$@" >/dev/null; echo "status $?"`
	out, stderr, err := b.Run(b.T.Context(), append([]string{"sh", "-c", script, "sh"}, words...)...)
	require.NoError(b.T, err)
	require.Equal(b.T, "status "+status, bed.Trim(out), stderr)
	return stderr
}

func (b commandsBed) add() {
	b.T.Helper()
	assert.Equal(b.T, "There are no dependencies; codex-proxy dependencies add makes one.\n", b.dependencies("list"))
	assert.Equal(b.T, "codex-proxy dependencies add: the program temporal is not installed: install Temporal's CLI, "+
		"see https://docs.temporal.io/cli, into /usr/local/bin\n", b.fails("1", "add", "temporal"))
	b.MustRun(b.T, "ln", "-s", "/opt/temporal", temporalPath)
	assert.Equal(b.T, "The dependency temporal is made of the preset temporal: "+temporalFile+
		", codex-dependency@temporal.service.\n"+
		"Start it: systemctl start codex-dependency@temporal\n"+
		"Start it at boot, too: systemctl enable codex-dependency@temporal\n", b.dependencies("add", "temporal"))
	assert.Contains(b.T, b.MustRun(b.T, "systemctl", "cat", "codex-dependency@temporal"), "-- "+temporalPath+" server "+
		"start-dev ", "systemd has read the file")
	assert.Equal(b.T, `codex-proxy dependencies add: there is a dependency "temporal" already: `+temporalFile+"\n",
		b.fails("1", "add", "temporal"))
	assert.Contains(b.T, b.fails("1", "add", "x", "--preset=tempora"), `there is no preset "tempora" (did you mean `+
		"temporal?); the presets are http, mcp, postgresql, template, temporal\n")
	assert.Equal(b.T, "temporal\n:4\n", b.completions("check"))
	assert.Contains(b.T, b.completions("add a --preset"), "postgresql\n")
}

// withoutRoot: others than root may look, and change nothing.
func (b commandsBed) withoutRoot() {
	b.T.Helper()
	for _, words := range []string{"add night --preset=temporal", "check temporal", "remove temporal"} {
		_, stderr, err := b.Run(b.T.Context(), "runuser", "-u", "nobody", "--", "sh", "-c",
			"codex-proxy dependencies "+words)
		require.Error(b.T, err)
		assert.Contains(b.T, stderr, ": only root may do this: try sudo\n", words)
	}
	out := b.MustRun(b.T, "runuser", "-u", "nobody", "--", "codex-proxy", "dependencies", "list")
	assert.Contains(b.T, out, "temporal  stopped\n")
}

// completions are those of the word after the given ones.
func (b commandsBed) completions(words string) string {
	b.T.Helper()
	return b.MustRun(b.T, "sh", "-c", "codex-proxy __complete dependencies "+words+" '' 2>/dev/null")
}

func (b commandsBed) checkStopped() {
	b.T.Helper()
	assert.Equal(b.T, temporalFile+` is valid.

unit     codex-dependency@temporal.service, inactive (dead), disabled at boot
command  /usr/local/bin/temporal server start-dev --ip 127.0.0.1 --port 7233 --headless --db-filename `+
		`/var/lib/codex-dependency/temporal/temporal.db
user     cd-temporal, a user of its own
writes   /var/lib/codex-dependency/temporal, /run/codex-dependency/temporal
hidden   /home, /root, the processes and /tmp of others
network  this machine alone (127.0.0.0/8, ::1)
check    grpc:127.0.0.1:7233 every 5s, at most 1s each
ready    once temporal:127.0.0.1:7233/default passes, too
hung     after 15s without a pass; then it is killed and restarted
start    within 30s
stop     SIGTERM, killed after 10s
ports    7233: free
lock     /var/lib/codex-dependency/temporal/.lock: free
`, b.dependencies("check", "temporal"))
}

// temporalRow is what the list has of the dependency, on one line.
func (b commandsBed) temporalRow() string {
	b.T.Helper()
	return strings.Join(strings.Fields(b.dependencies("list")), " ")
}

func (b commandsBed) startAndList() {
	b.T.Helper()
	assert.Regexp(b.T, `^temporal stopped why systemctl start codex-dependency@temporal.service check `+
		`grpc:127.0.0.1:7233 every 5s, and temporal:127.0.0.1:7233/default at the start restarts 0 unit `+
		`codex-dependency@temporal.service, inactive \(dead\)$`, b.temporalRow())
	b.MustRun(b.T, "systemctl", "enable", "--now", "codex-dependency@temporal")
	assert.Regexp(b.T, `^temporal ready since \d\d:\d\d, \d+s why .*grpc.* check grpc:127.0.0.1:7233 every 5s, .* `+
		`restarts 0 unit codex-dependency@temporal.service, active \(running\), starts at boot$`, b.temporalRow())
	assert.Equal(b.T, map[string]string{"SyslogIdentifier": "temporal"}, b.Properties("codex-dependency@temporal.service",
		"SyslogIdentifier"), "the server's lines have its name")
	var list struct{ Dependencies []map[string]any }
	require.NoError(b.T, json.Unmarshal([]byte(b.dependencies("list", "--json")), &list))
	require.Len(b.T, list.Dependencies, 1)
	for key, want := range map[string]any{"name": "temporal", "ready": true, "reason": "ready",
		"active_state": "active", "restarts_total": 0.0, "required_by": []any{}, "at_boot": true,
		"check": "grpc:127.0.0.1:7233"} {
		assert.Equal(b.T, want, list.Dependencies[0][key], key)
	}
	checked := b.dependencies("check", "temporal")
	assert.Contains(b.T, checked, "ports    7233: held by this dependency\n")
	assert.Contains(b.T, checked, "temporal/.lock: held by this dependency\n")
	assert.Contains(b.T, checked, "active (running), enabled at boot\n")
	b.second()
}

// second is a dependency of the same preset: the first one has its port.
func (b commandsBed) second() {
	b.T.Helper()
	b.dependencies("add", "night", "--preset=temporal")
	assert.Regexp(b.T, `^fault: port 7233 is held by pid \d+ \(/usr/local/bin/temporal server start-dev .*\), unit `+
		`codex-dependency@temporal.service\n`+
		`codex-proxy dependencies check: codex-dependency@night.service cannot start\n$`,
		b.fails("78", "check", "night"))
	_, _, err := b.Run(b.T.Context(), "systemctl", "start", "codex-dependency@night")
	require.Error(b.T, err)
	assert.Regexp(b.T, `^night refused since .* why Not started: port 7233 is held by pid \d+ .*unit `+
		`codex-dependency@temporal.service`, b.temporalRow())
	b.dependencies("remove", "night", "--purge")
}

// watch sees a stop.
func (b commandsBed) watch() {
	b.T.Helper()
	seen := &bed.Watched{Want: regexp.MustCompile(`(?s)^temporal  ready.*\ntemporal  stopped`), Came: make(chan struct{})}
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	var ended error
	var task sync.WaitGroup
	task.Go(func() {
		args := []string{"codex-proxy", "dependencies", "list", "--watch"}
		ended = b.Exec(ctx, machine.Exec{Args: args, Stdout: seen, Stderr: seen})
	})
	await.True(b.T, func() bool { return strings.Contains(seen.String(), "temporal  ready") }, bed.Bound)
	b.MustRun(b.T, "systemctl", "stop", "codex-dependency@temporal")
	select {
	case <-seen.Came:
	case <-ctx.Done():
		assert.Fail(b.T, "the stop was not shown", seen.String())
	}
	cancel()
	task.Wait()
	assert.Error(b.T, ended, "it goes on until it is ended")
}

// faults of a file are the status of the unit, and of the check.
func (b commandsBed) faults() {
	b.T.Helper()
	const file, unit = "/etc/codex-proxy/dependencies/bad.toml", "codex-dependency@bad.service"
	require.NoError(b.T, b.WriteFile(file, []byte("comand = []\n"), 0o644))
	b.MustRun(b.T, "systemctl", "daemon-reload")
	const fault = file + `:1: unknown key "comand" (did you mean "command"?)`
	assert.Equal(b.T, "codex-proxy dependencies check: "+fault+"\n", b.fails("78", "check", "bad"))
	b.fault(unit, fault)
	assert.Contains(b.T, b.dependencies("list"), "bad  invalid since ")

	require.NoError(b.T, b.WriteFile(file, []byte("command = [\"/bin/cat\"]\n[probe]\ncheck = \"exec:true\"\n"), 0o644))
	b.fault(unit, file+" is valid, but systemd has not read it: systemctl daemon-reload, then start again")
	b.MustRun(b.T, "systemctl", "daemon-reload")

	require.NoError(b.T, b.WriteFile(file, []byte("command = [\"/no/such\"]\n[probe]\ncheck = \"tcp:127.0.0.1:7233\"\n"+
		"timeout = \"900ms\"\n"), 0o644))
	assert.Equal(b.T, "fault: command: /no/such: there is no such program: name the path of the one to run\n"+
		"codex-proxy dependencies check: codex-dependency@bad.service cannot start\n", b.fails("78", "check", "bad"))
	b.dependencies("remove", "bad")
}

// fault is a start that fails once, for good.
func (b commandsBed) fault(unit, text string) {
	b.T.Helper()
	_, _, err := b.Run(b.T.Context(), "systemctl", "start", unit)
	require.Error(b.T, err)
	state := b.Properties(unit, "ActiveState", "ExecMainStatus", "StatusText", "NRestarts")
	assert.Equal(b.T, map[string]string{"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0",
		"StatusText": "Not started: " + text}, state)
	assert.Contains(b.T, b.UnitJournal(unit), text)
}

func (b commandsBed) remove() {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "start", "codex-dependency@temporal")
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, []byte("requires = [\"temporal\"]\n"), 0o644))
	assert.Equal(b.T, "codex-proxy dependencies remove: codex-proxy.service requires temporal: take it out of "+
		"`requires` in "+bed.ConfigFile+", then systemctl daemon-reload\n", b.fails("1", "remove", "temporal"))
	assert.Contains(b.T, b.temporalRow(), " needed codex-proxy.service unit ")
	require.NoError(b.T, b.WriteFile(bed.ConfigFile, nil, 0o644))
	assert.Equal(b.T, "The dependency temporal is removed.\n"+
		"Its state stays: /var/lib/codex-dependency/temporal (--purge removes it)\n",
		b.dependencies("remove", "temporal"))
	state := b.Properties("codex-dependency@temporal.service", "ActiveState", "UnitFileState", "DropInPaths")
	assert.Equal(b.T, map[string]string{"ActiveState": "inactive", "UnitFileState": "disabled", "DropInPaths": ""},
		state)
	assert.Contains(b.T, b.fails("1", "remove", "temporal"), `there is no dependency "temporal"`)
	assert.Equal(b.T, "The dependency temporal is removed.\n", b.dependencies("remove", "temporal", "--purge"))
	assert.Equal(b.T, "gone\n", b.MustRun(b.T, "sh", "-c", "ls /var/lib/codex-dependency "+
		"/var/lib/private/codex-dependency | grep temporal || echo gone"))
}
