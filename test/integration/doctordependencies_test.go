package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	webUnit = "codex-dependency@web.service"
	webFile = "/etc/codex-proxy/dependencies/web.toml"
	// web accepts connections.
	web = `description = "web"
command = ["/usr/bin/perl", "-MIO::Socket::INET", "-e", """$s = IO::Socket::INET->new(LocalAddr => '127.0.0.1:9099', \
    Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) {{ close $c }"""]
ports = [9099]

[probe]
check = "tcp:127.0.0.1:9099"
interval = "1s"
`
)

// warned waits for a warning of that check with the text, and returns its remedy.
func (b *bed) warned(check, text string) string {
	b.t.Helper()
	deadline := time.Now().Add(bound)
	for {
		r, _ := b.doctor()
		for _, f := range r.Findings {
			if f.Level == "warn" && f.Check == check && strings.Contains(f.Subject+": "+f.Detail, text) {
				return f.Remedy
			}
		}
		require.True(b.t, time.Now().Before(deadline), "not found: %s, %s: %+v", check, text, r.Findings)
	}
}

// The doctor finds the faults of a dependency, and each remedy mends its fault.
func TestDoctorDependencies(t *testing.T) { bothSuites(t, testDoctorDependencies) }

func testDoctorDependencies(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, forgetful)
	b.start()
	write := func(text string) { require.NoError(t, b.WriteFile(webFile, []byte(text), 0o644)) }
	write(web)
	b.do(b.warned("dependencies", "web.toml: has changed, and systemd has not read it"))
	b.do(b.warned("dependencies", "dependency web: runs, and does not start at boot"))
	b.MustRun(t, "systemctl", "disable", "--now", webUnit)
	b.do(strings.Split(b.warned("dependencies", "dependency web: is stopped, and nothing starts it"), ";")[0])
	b.healthy()
	assert.Contains(t, b.MustRun(t, "codex-proxy", "doctor"),
		"ok    dependencies  dependency web: answers (tcp 127.0.0.1:9099)\n")

	// An edit that systemd has not read, and one that the server has not.
	write(strings.Replace(web, `"1s"`, `"2s"`, 1))
	remedy := b.warned("dependencies", "web.toml: has changed, and systemd has not read it")
	b.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, "systemctl daemon-reload && systemctl restart "+webUnit, remedy)
	b.do(remedy)
	b.healthy()

	// A file with a slip, and a program that is gone.
	write(strings.Replace(web, "ports", "prots", 1))
	assert.Contains(t, b.found("dependencies", `web.toml:4: unknown key "prots" (did you mean "ports"?)`),
		"codex-proxy dependencies check web")
	write(strings.Replace(web, "/usr/bin/perl", "/opt/none", 1))
	assert.Contains(t, b.found("dependencies", "dependency web: /opt/none is not installed"), webFile)
	b.MustRun(t, "systemctl", "daemon-reload")
	_, _, err := b.Run(t.Context(), "systemctl", "restart", webUnit)
	require.Error(t, err)
	write(web)
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "reset-failed", webUnit)
	b.MustRun(t, "systemctl", "start", webUnit)
	b.healthy()

	// A stop, which matters more if something requires the dependency.
	b.MustRun(t, "systemctl", "stop", webUnit)
	b.warned("dependencies", "dependency web: is stopped, and starts at boot")
	require.NoError(t, b.WriteFile(workerFile, []byte("requires = [\"web\"]\n"+realWorker), 0o644))
	b.do(b.found("dependencies", "dependency web: is stopped, and "+workerUnit+" requires it"))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	b.until("well", well)
	b.healthy()

	// A state directory of root's.
	b.MustRun(t, "chown", "root:root", "/var/lib/codex-dependency/web/")
	b.do(b.found("dependencies", "/var/lib/codex-dependency/web: belongs to the user 0"))
	b.healthy()

	// Another dependency with the same port.
	require.NoError(t, b.WriteFile("/etc/codex-proxy/dependencies/other.toml", []byte(web), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.warned("dependencies", "dependencies other, web: have the same port 9099")
	b.MustRun(t, "rm", "/etc/codex-proxy/dependencies/other.toml")
	b.MustRun(t, "systemctl", "daemon-reload")
	b.healthy()
}
