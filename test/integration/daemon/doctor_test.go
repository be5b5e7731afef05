package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/codexes"
)

// The doctor has no findings for a healthy installation, changes nothing, and starts no
// stopped service.
func TestDoctor(t *testing.T) { bed.BothSuites(t, testDoctor) }

func testDoctor(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	before := b.Properties(bed.WorkerUnit, "InvocationID", "NRestarts", "StateChangeTimestampMonotonic")
	bed.DoctorFindsNothing(b)
	page := b.MustRun(t, "codex-proxy", "doctor")
	assert.Contains(t, page, "ok    codex         worker default: codex "+codexes.Pinned(t)+", native, "+bed.CodexDir+"/bin/codex, within the tested range, 0.")
	assert.Contains(t, page, "ok    models        worker default: offers "+bed.Model+"\n")
	if suite == bed.Oldest { // the missing delays are no finding: the units wait themselves
		assert.Regexp(t, `ok    systemd       version 252.*the units themselves wait`, page)
	}
	assert.Contains(t, page, "ok    ports         127.0.0.1:8787: answers, and asks for no API key\n")
	assert.Equal(t, before, b.Properties(bed.WorkerUnit, "InvocationID", "NRestarts", "StateChangeTimestampMonotonic"))

	b.MustRun(t, "systemctl", "stop", "codex-proxy.service")
	remedy := bed.DoctorFinds(b, "service", "does not run")
	bed.DoctorFinds(b, "units", "codex-proxy.service: is stopped")
	assert.Equal(t, "inactive", b.Properties(bed.ProxyUnit, "ActiveState")["ActiveState"], "the doctor started it")
	bed.Follow(b, strings.Split(remedy, ";")[0])
	bed.DoctorFindsNothing(b)

	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "ci", "--file", "/root/keys"))
	b.MustRun(t, "cp", "/root/keys", "/etc/codex-proxy/api-keys") // as one who edits it by hand
	bed.Follow(b, bed.DoctorFinds(b, "ports", "answers a request without an API key"))
	bed.DoctorFindsNothing(b)
	assert.NotContains(t, b.MustRun(t, "codex-proxy", "doctor", "--json"), key)

	out, _, err := b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
		"codex-proxy", "doctor")
	assert.Error(t, err, "what was not looked at is not well")
	assert.Contains(t, out, "run it as root")
}

// Each of these faults breaks the service, or its next start. The doctor reports it,
// and the remedy helps.
func TestDoctorFindsWhatIsBroken(t *testing.T) { bed.EitherSuite(t, testDoctorFindsWhatIsBroken) }

func testDoctorFindsWhatIsBroken(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Forgetful)
	b.DropIn(bed.ProxyUnit, "patient", "[Service]\nWatchdogSec=10min\n") // it hangs for as long as the doctor looks
	b.Start()
	bed.DoctorFindsNothing(b)
	write := func(path, text string) { require.NoError(b.T, b.WriteFile(path, []byte(text), 0o644)) }
	good, err := b.ReadFile("/etc/codex-proxy/config.toml")
	require.NoError(t, err)

	// A stopped worker.
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	bed.DoctorFinds(b, "service", "is not ready (stopped)")
	bed.Follow(b, bed.DoctorFinds(b, "units", bed.WorkerUnit+": is stopped"))
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)

	// A worker whose codex is gone: before and after its next start fails.
	write(bed.WorkerFile, strings.Replace(bed.RealWorker, bed.CodexDir+"/bin/codex", "/opt/none", 1))
	assert.Contains(t, bed.DoctorFinds(b, "codex", "cannot use codex_path = \"/opt/none\""), "codex")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", bed.WorkerUnit)
	require.Error(t, err)
	bed.DoctorFinds(b, "units", "codex_path = \"/opt/none\"")
	write(bed.WorkerFile, bed.RealWorker)
	b.MustRun(t, "systemctl", "reset-failed", bed.WorkerUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)

	// A configuration that the next start, or reload, would refuse.
	write("/etc/codex-proxy/config.toml", "queue_limt = 3\n")
	assert.Contains(t, bed.DoctorFinds(b, "config", `/etc/codex-proxy/config.toml:1: unknown key "queue_limt" (did you mean `+
		`"queue_limit"?)`), "codex-proxy config check")
	_, _, err = b.Run(t.Context(), "systemctl", "restart", bed.ProxyUnit)
	require.Error(t, err)
	bed.DoctorFinds(b, "units", bed.ProxyUnit+": has failed (exited with status 78)")
	write("/etc/codex-proxy/config.toml", string(good))
	b.MustRun(t, "systemctl", "reset-failed", bed.ProxyUnit)
	b.MustRun(t, "systemctl", "start", "codex.target")
	bed.DoctorFindsNothing(b)

	// A socket that the proxy could not connect to again, and files of the wrong user.
	b.MustRun(t, "chmod", "0600", "/run/codex-proxy/default.sock")
	bed.Follow(b, strings.Split(bed.DoctorFinds(b, "sockets", "has mode 0600: the proxy cannot connect"), ";")[0])
	b.MustRun(t, "chown", "root:root", "/var/lib/codex-worker/default/config.toml")
	bed.Follow(b, bed.DoctorFinds(b, "permissions", "config.toml: belongs to the user 0"))
	b.MustRun(t, "chmod", "0644", "/etc/codex-proxy/api-keys")
	bed.Follow(b, bed.DoctorFinds(b, "permissions", "api-keys: has mode 0644"))
	bed.DoctorFindsNothing(b)

	// A daemon that hangs, and one without its control socket.
	pid := b.Properties(bed.ProxyUnit, "MainPID")["MainPID"]
	b.MustRun(t, "kill", "-STOP", pid)
	hung, _ := bed.Doctor(b)
	for check, says := range map[string]string{"service": "does not answer",
		"ports": "127.0.0.1:8787: does not answer"} {
		_, failed := hung.Remedy(check, says)
		assert.True(t, failed, "%s: %+v", check, hung.Findings)
	}
	b.MustRun(t, "kill", "-CONT", pid)
	b.MustRun(t, "rm", "/run/codex-proxy/control/socket")
	bed.Follow(b, strings.Split(bed.DoctorFinds(b, "sockets", "is gone, while the service runs"), ",")[0])
	bed.DoctorFindsNothing(b)

	// No polkit rule, then no bus.
	b.MustRun(t, "mv", "/usr/share/polkit-1/rules.d/codex-proxy.rules", "/opt/")
	b.MustRun(t, "systemctl", "restart", "polkit")
	bed.DoctorFinds(b, "polkit", "codex-proxy may not reset-failed")
	b.MustRun(t, "mv", "/opt/codex-proxy.rules", "/usr/share/polkit-1/rules.d/")
	b.MustRun(t, "systemctl", "restart", "polkit")
	b.MustRun(t, "systemctl", "stop", "dbus.socket", "dbus.service")
	bed.DoctorFinds(b, "bus", "the system bus")
	b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service", "polkit")

	// The port, taken by another process while the service was down.
	b.MustRun(t, "systemctl", "stop", "codex.target", "codex-proxy.socket")
	b.AwaitInactive(bed.ProxyUnit)
	b.MustRun(t, "systemd-run", "--unit=squatter", "--property=Type=notify",
		"codex-proxy", "notify-exec", "--probe", "tcp:127.0.0.1:8787", "--", "perl", "-MIO::Socket::INET", "-e",
		`@s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8787", Listen => 5, ReuseAddr => 1) or die; sleep 600`)
	_, _, _ = b.Run(t.Context(), "systemctl", "start", "codex.target")
	assert.Contains(t, bed.DoctorFinds(b, "ports", "127.0.0.1:8787: is taken by perl (process "),
		"systemctl edit codex-proxy.socket")
	b.MustRun(t, "systemctl", "stop", "squatter")
	b.MustRun(t, "systemctl", "start", "codex.target")
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)
}

// A worker that uses OpenAI needs a login, and a worker that runs commands its sandbox.
func TestDoctorLooksAtCodex(t *testing.T) { bed.BothSuites(t, testDoctorLooksAtCodex) }

func testDoctorLooksAtCodex(t *testing.T, suite string) {
	b := bed.New(t, suite, "mode = \"plain\"\ncodex_path = \""+bed.CodexDir+"/bin/codex\"\n", bed.Forgetful)
	_, _, _ = b.Run(t.Context(), "systemctl", "start", "codex.target")
	bed.Follow(b, "printf sk-test | "+bed.DoctorFinds(b, "login", "worker default: codex is not logged in")+" --with-api-key")
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)

	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(strings.Replace(bed.RealWorker, "plain", "native", 1)), 0o644))
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)
	b.MustRun(t, "mount", "-t", "tmpfs", "none", bed.CodexDir+"/codex-resources")
	assert.Contains(t, bed.DoctorFinds(b, "sandbox", "codex cannot run a command in its sandbox"), "bubblewrap")
	b.MustRun(t, "umount", bed.CodexDir+"/codex-resources")
	require.NoError(t, b.WriteFile("/usr/bin/bwrap", []byte(`#!/bin/sh
case "$*" in *--help* | *--version*) exec `+bed.CodexDir+`/codex-resources/bwrap "$@" ;; esac
echo "bwrap: No permissions to create new namespace" >&2
exit 1
`), 0o755))
	// The unit hides the distribution's bubblewrap, and codex takes its own.
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)
}
