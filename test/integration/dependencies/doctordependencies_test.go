package dependencies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// warned waits for a warning of that check with the text, and returns its remedy.
func warned(b *bed.Bed, check, text string) string {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		r, _ := bed.Doctor(b)
		for _, f := range r.Findings {
			if f.Level == "warn" && f.Check == check && strings.Contains(f.Subject+": "+f.Detail, text) {
				return f.Remedy
			}
		}
		require.True(b.T, time.Now().Before(deadline), "not found: %s, %s: %+v", check, text, r.Findings)
	}
}

// The doctor finds the faults of a dependency, and each remedy mends its fault.
func TestDoctorDependencies(t *testing.T) { bed.EitherSuite(t, testDoctorDependencies) }

func testDoctorDependencies(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Forgetful)
	b.Start()
	write := func(text string) { require.NoError(t, b.WriteFile(bed.WebFile, []byte(text), 0o644)) }
	write(bed.Web)
	bed.Follow(b, warned(b, "dependencies", "web.toml: has changed, and systemd has not read it"))
	bed.Follow(b, warned(b, "dependencies", "dependency web: runs, and does not start at boot"))
	b.MustRun(t, "systemctl", "disable", "--now", bed.WebUnit)
	bed.Follow(b, strings.Split(warned(b, "dependencies", "dependency web: is stopped, and nothing starts it"), ";")[0])
	bed.DoctorFindsNothing(b)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "doctor"),
		"ok    dependencies  dependency web: answers (tcp 127.0.0.1:9099)\n")

	// An edit that systemd has not read, and one that the server has not.
	write(strings.Replace(bed.Web, `"1s"`, `"2s"`, 1))
	remedy := warned(b, "dependencies", "web.toml: has changed, and systemd has not read it")
	b.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, "systemctl daemon-reload && systemctl restart "+bed.WebUnit, remedy)
	bed.Follow(b, remedy)
	bed.DoctorFindsNothing(b)

	// A file with a slip, and a program that is gone.
	write(strings.Replace(bed.Web, "ports", "prots", 1))
	assert.Contains(t, bed.DoctorFinds(b, "dependencies", `web.toml:4: unknown key "prots" (did you mean "ports"?)`),
		"codex-proxy dependencies check web")
	write(strings.Replace(bed.Web, "/usr/bin/perl", "/opt/none", 1))
	assert.Contains(t, bed.DoctorFinds(b, "dependencies", "dependency web: command: /opt/none: there is no such program"), "codex-proxy dependencies check web")
	b.MustRun(t, "systemctl", "daemon-reload")
	_, _, err := b.Run(t.Context(), "systemctl", "restart", bed.WebUnit)
	require.Error(t, err)
	write(bed.Web)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "reset-failed", bed.WebUnit)
	b.MustRun(t, "systemctl", "start", bed.WebUnit)
	bed.DoctorFindsNothing(b)

	// A stop, which matters more if something requires the dependency.
	b.MustRun(t, "systemctl", "stop", bed.WebUnit)
	warned(b, "dependencies", "dependency web: is stopped, and starts at boot")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("requires = [\"web\"]\n"+bed.RealWorker), 0o644))
	bed.Follow(b, bed.DoctorFinds(b, "dependencies", "dependency web: is stopped, and "+bed.WorkerUnit+" requires it"))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.Until("well", bed.Well)
	bed.DoctorFindsNothing(b)

	// A state directory of root's.
	b.MustRun(t, "chown", "root:root", "/var/lib/codex-dependency/web/")
	bed.Follow(b, bed.DoctorFinds(b, "dependencies", "/var/lib/codex-dependency/web: belongs to the user 0"))
	bed.DoctorFindsNothing(b)

	// Another dependency with the same port.
	require.NoError(t, b.WriteFile("/etc/codex-proxy/dependencies/other.toml", []byte(bed.Web), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	warned(b, "dependencies", "dependencies other, web: have the same port 9099")
	b.MustRun(t, "rm", "/etc/codex-proxy/dependencies/other.toml")
	b.MustRun(t, "systemctl", "daemon-reload")
	bed.DoctorFindsNothing(b)
}
