package dependencies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// servers is a Debian with servers that dependencies may be.
func servers(suite string) machine.Root { return machine.Debian(suite, "postgresql", "python3") }

// pages is the directory that the web server serves.
const pages = "/srv/pages"

// webServer is the command of Python's web server.
const webServer = `"/usr/bin/python3", "-m", "http.server", "8080", "--bind", "127.0.0.1", ` +
	`"--directory", "` + pages + `"`

// webBed is a machine with the package and pages for a web server.
func webBed(t *testing.T, suite string) *bed.Bed {
	t.Helper()
	b := bed.NewOn(t, servers(suite), bed.RealWorker, "")
	page(b, "all is well")
	return b
}

// page is what /health answers; without text there is no such page.
func page(b *bed.Bed, text string) {
	b.T.Helper()
	if text == "" {
		b.MustRun(b.T, "rm", pages+"/health")
		return
	}
	require.NoError(b.T, b.WriteFile(pages+"/health", []byte(text+"\n"), 0o644))
}

// reason is the line of systemctl status with the words of notify-exec.
func reason(d bed.Dependency) string {
	d.T.Helper()
	out, _, _ := d.Run(d.T.Context(), "systemctl", "status", "--full", "--lines=0", d.Unit) // 3 for a failed unit
	_, rest, _ := strings.Cut(out, "\n     Status: ")
	reason, _, _ := strings.Cut(rest, "\n")
	return reason
}

// awaitReason waits until the reason has a text, and returns the reason.
func awaitReason(d bed.Dependency, text string) string {
	d.T.Helper()
	deadline := time.Now().Add(bed.Bound)
	for pace := (await.Pace{}); ; pace.Pause(d.T.Context()) {
		reason := reason(d)
		if strings.Contains(reason, text) {
			return reason
		}
		require.True(d.T, time.Now().Before(deadline), "never %q: %s", text, reason)
	}
}

// unixServer is a Python program that accepts connections on a unix socket.
const unixServer = `import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
while True:
    s.accept()[0].close()
`

// Each kind of check makes a unit ready, and shows why another one is not.
func TestDependencyChecks(t *testing.T) { bed.BothSuites(t, testDependencyChecks) }

func testDependencyChecks(t *testing.T, suite string) {
	b := webBed(t, suite)
	require.NoError(t, b.WriteFile("/srv/unix.py", []byte(unixServer), 0o644))
	for _, c := range []struct{ name, command, passes, fails, reason string }{
		{"tcp", webServer, "tcp:127.0.0.1:8080", "tcp:127.0.0.1:8081", "connection refused"},
		{"unix", `"/usr/bin/python3", "/srv/unix.py", "{runtime}/socket"`,
			"unix:{runtime}/socket", "unix:{runtime}/other", "no such file or directory"},
		{"exec", webServer, "exec:curl -fsS http://127.0.0.1:8080/health",
			"exec:curl -fsS http://127.0.0.1:8080/none", "exit status 22"},
		{"http", webServer, "http://127.0.0.1:8080/health", "http://127.0.0.1:8080/none", "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "command = [" + c.command + "]\n[probe]\ninterval = \"2s\"\ncheck = \""
			d := bed.NewDependency(b, c.name, file+c.passes+"\"\n")
			d.Start()
			stopDependency(d)
			d.Write("start_timeout = \"5s\"\n" + file + c.fails + "\"\n")
			started := b.Begin("systemctl", "start", d.Unit)
			t.Log(awaitReason(d, c.reason))
			assert.Error(t, <-started)
			stopDependency(d)
		})
	}
}
