package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checks of `codex-proxy doctor`, in order.
const doctorChecks = "systemd units users permissions bus polkit codex sandbox login config databases homes sockets " +
	"service models accounts dependencies remotes watchdog ports cgroup clock"

// ofTheHost are the checks whose results depend on the host of the tests.
var ofTheHost = map[string]bool{"cgroup": true, "clock": true}

// diagnosis is the JSON of `codex-proxy doctor`.
type diagnosis struct {
	OK       bool `json:"ok"`
	Findings []struct{ Check, Level, Subject, Detail, Remedy string }
}

// doctor runs `codex-proxy doctor --json` and returns its exit status, too.
func (b *bed) doctor() (diagnosis, int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	out, stderr, err := b.Run(ctx, "codex-proxy", "doctor", "--json")
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	var r diagnosis
	require.NoError(b.t, json.Unmarshal([]byte(out), &r), out+stderr)
	var checks []string
	for _, f := range r.Findings {
		if len(checks) == 0 || checks[len(checks)-1] != f.Check {
			checks = append(checks, f.Check)
		}
	}
	assert.Equal(b.t, doctorChecks, strings.Join(checks, " "), "a check is hidden")
	assert.Equal(b.t, r.OK, status == 0)
	return r, status
}

// healthy requires that no check of ours has a finding.
func (b *bed) healthy() {
	b.t.Helper()
	r, status := b.doctor()
	require.Zero(b.t, status, "%+v", r.Findings)
	for _, f := range r.Findings {
		if !ofTheHost[f.Check] {
			require.Equal(b.t, "ok", f.Level, "%+v", f)
		}
	}
}

// found waits for a failure of that check with the text, and returns its remedy: a
// unit that fails repeatedly is starting in between.
func (b *bed) found(check, says string) string {
	b.t.Helper()
	deadline := time.Now().Add(bound)
	for {
		r, status := b.doctor()
		if remedy, failed := r.remedy(check, says); failed {
			require.Equal(b.t, 1, status, "%+v", r)
			return remedy
		}
		require.True(b.t, time.Now().Before(deadline), "not found: %s, %s: %+v", check, says, r.Findings)
	}
}

// remedy is the remedy of the failure of check with the text.
func (d diagnosis) remedy(check, says string) (remedy string, failed bool) {
	for _, f := range d.Findings {
		if f.Level == "fail" && f.Check == check && strings.Contains(f.Subject+": "+f.Detail, says) {
			return f.Remedy, true
		}
	}
	return "", false
}

// forgetful is for workers that fail until they are mended: after half a second of
// health a failure is no longer consecutive.
const forgetful = "reset_after = \"500ms\"\n"

func well(status int, r report) bool {
	return ready(status, r) && r.Workers[0].ConsecutiveFailures == 0
}

// do runs a remedy that is one command.
func (b *bed) do(remedy string) {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-ec", remedy)
}

// The doctor has no findings for a healthy installation, changes nothing, and starts no
// stopped service.
func TestDoctor(t *testing.T) { bothSuites(t, testDoctor) }

func testDoctor(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	before := b.show(workerUnit, "InvocationID", "NRestarts", "StateChangeTimestampMonotonic")
	b.healthy()
	page := b.MustRun(t, "codex-proxy", "doctor")
	assert.Contains(t, page, "ok    codex         worker default: codex 0.169.0, native, "+codexDir+"/bin/codex\n")
	assert.Contains(t, page, "ok    models        worker default: offers "+model+"\n")
	if suite == oldest { // the missing delays are no finding: the units wait themselves
		assert.Regexp(t, `ok    systemd       version 252.*the units themselves wait`, page)
	}
	assert.Contains(t, page, "ok    ports         127.0.0.1:8787: answers, and asks for no API key\n")
	assert.Equal(t, before, b.show(workerUnit, "InvocationID", "NRestarts", "StateChangeTimestampMonotonic"))

	b.MustRun(t, "systemctl", "stop", "codex-proxy.service")
	remedy := b.found("service", "does not run")
	b.found("units", "codex-proxy.service: is stopped")
	assert.Equal(t, "inactive", b.show(proxyUnit, "ActiveState")["ActiveState"], "the doctor started it")
	b.do(strings.Split(remedy, ";")[0])
	b.healthy()

	key := trim(b.MustRun(t, "codex-proxy", "keys", "add", "ci", "--file", "/root/keys"))
	b.MustRun(t, "cp", "/root/keys", "/etc/codex-proxy/api-keys") // as one who edits it by hand
	b.do(b.found("ports", "answers a request without an API key"))
	b.healthy()
	assert.NotContains(t, b.MustRun(t, "codex-proxy", "doctor", "--json"), key)

	out, _, err := b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"codex-proxy", "doctor")
	assert.Error(t, err, "what was not looked at is not well")
	assert.Contains(t, out, "run it as root")
}

// Each of these faults breaks the service, or its next start. The doctor reports it,
// and the remedy helps.
func TestDoctorFindsWhatIsBroken(t *testing.T) { bothSuites(t, testDoctorFindsWhatIsBroken) }

func testDoctorFindsWhatIsBroken(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, forgetful)
	b.dropIn(proxyUnit, "patient", "[Service]\nWatchdogSec=10min\n") // it hangs for as long as the doctor looks
	b.start()
	b.healthy()
	write := func(path, text string) { require.NoError(b.t, b.WriteFile(path, []byte(text), 0o644)) }
	good, err := b.ReadFile("/etc/codex-proxy/config.toml")
	require.NoError(t, err)

	// A stopped worker.
	b.MustRun(t, "systemctl", "stop", workerUnit)
	b.found("service", "is not ready (stopped)")
	b.do(b.found("units", workerUnit+": is stopped"))
	b.until("well", well)
	b.healthy()

	// A worker whose codex is gone: before and after its next start fails.
	write(workerFile, strings.Replace(realWorker, codexDir+"/bin/codex", "/opt/none", 1))
	assert.Contains(t, b.found("codex", "cannot use codex_path = \"/opt/none\""), "codex")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", workerUnit)
	require.Error(t, err)
	b.found("units", "codex_path = \"/opt/none\"")
	write(workerFile, realWorker)
	b.MustRun(t, "systemctl", "reset-failed", workerUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.until("well", well)
	b.healthy()

	// A configuration that the next start, or reload, would refuse.
	write("/etc/codex-proxy/config.toml", "queue_limt = 3\n")
	assert.Contains(t, b.found("config", `/etc/codex-proxy/config.toml:1: unknown key "queue_limt" (did you mean `+
		`"queue_limit"?)`), "codex-proxy config check")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", proxyUnit)
	require.Error(t, err)
	b.found("units", proxyUnit+": has failed (exited with status 78)")
	write("/etc/codex-proxy/config.toml", string(good))
	b.MustRun(t, "systemctl", "reset-failed", proxyUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.healthy()

	// A socket that the proxy could not connect to again, and files of the wrong user.
	b.MustRun(t, "chmod", "0600", "/run/codex-proxy/default.sock")
	b.do(strings.Split(b.found("sockets", "has mode 0600: the proxy cannot connect"), ";")[0])
	b.MustRun(t, "chown", "root:root", "/var/lib/codex-worker/default/config.toml")
	b.do(b.found("permissions", "config.toml: belongs to the user 0"))
	b.MustRun(t, "chmod", "0644", "/etc/codex-proxy/api-keys")
	b.do(b.found("permissions", "api-keys: has mode 0644"))
	b.healthy()

	// A daemon that hangs, and one without its control socket.
	pid := b.show(proxyUnit, "MainPID")["MainPID"]
	b.MustRun(t, "kill", "-STOP", pid)
	hung, _ := b.doctor()
	for check, says := range map[string]string{"service": "does not answer",
		"ports": "127.0.0.1:8787: does not answer"} {
		_, failed := hung.remedy(check, says)
		assert.True(t, failed, "%s: %+v", check, hung.Findings)
	}
	b.MustRun(t, "kill", "-CONT", pid)
	b.MustRun(t, "rm", "/run/codex-proxy/control/socket")
	b.do(strings.Split(b.found("sockets", "is gone, while the service runs"), ",")[0])
	b.healthy()

	// No polkit rule, then no bus.
	b.MustRun(t, "mv", "/usr/share/polkit-1/rules.d/codex-proxy.rules", "/opt/")
	b.MustRun(t, "systemctl", "restart", "polkit")
	b.found("polkit", "codex-proxy may not reset-failed")
	b.MustRun(t, "mv", "/opt/codex-proxy.rules", "/usr/share/polkit-1/rules.d/")
	b.MustRun(t, "systemctl", "restart", "polkit")
	b.MustRun(t, "systemctl", "stop", "dbus.socket", "dbus.service")
	b.found("bus", "the system bus")
	b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service", "polkit")

	// The port, taken by another process while the service was down.
	b.MustRun(t, "systemctl", "stop", "codex.target", "codex-proxy.socket")
	b.awaitInactive(proxyUnit)
	b.MustRun(t, "systemd-run", "--unit=squatter", "--property=Type=notify",
		"codex-proxy", "notify-exec", "--probe", "tcp:127.0.0.1:8787", "--", "perl", "-MIO::Socket::INET", "-e",
		`@s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8787", Listen => 5, ReuseAddr => 1) or die; sleep 600`)
	_, _, _ = b.Run(t.Context(), "systemctl", "start", "codex.target")
	assert.Contains(t, b.found("ports", "127.0.0.1:8787: is taken by perl (process "),
		"systemctl edit codex-proxy.socket")
	b.MustRun(t, "systemctl", "stop", "squatter")
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.until("well", well)
	b.healthy()
}

// A worker that uses OpenAI needs a login, and a worker that runs commands its sandbox.
func TestDoctorLooksAtCodex(t *testing.T) { bothSuites(t, testDoctorLooksAtCodex) }

func testDoctorLooksAtCodex(t *testing.T, suite string) {
	b := newBed(t, suite, "mode = \"plain\"\ncodex_path = \""+codexDir+"/bin/codex\"\n", forgetful)
	_, _, _ = b.Run(t.Context(), "systemctl", "start", "codex.target")
	b.do("printf sk-test | " + b.found("login", "worker default: codex is not logged in") + " --with-api-key")
	b.until("well", well)
	b.healthy()

	require.NoError(t, b.WriteFile(workerFile, []byte(strings.Replace(realWorker, "plain", "native", 1)), 0o644))
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("well", well)
	b.healthy()
	b.MustRun(t, "mount", "-t", "tmpfs", "none", codexDir+"/codex-resources")
	assert.Contains(t, b.found("sandbox", "codex cannot run a command in its sandbox"), "bubblewrap")
	b.MustRun(t, "umount", codexDir+"/codex-resources")
	require.NoError(t, b.WriteFile("/usr/bin/bwrap", []byte(`#!/bin/sh
case "$*" in *--help* | *--version*) exec `+codexDir+`/codex-resources/bwrap "$@" ;; esac
echo "bwrap: No permissions to create new namespace" >&2
exit 1
`), 0o755))
	// The unit hides the distribution's bubblewrap, and codex takes its own.
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.until("well", well)
	b.healthy()
}
