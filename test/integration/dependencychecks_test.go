package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
func webBed(t *testing.T, suite string) *bed {
	t.Helper()
	b := newBedOn(t, servers(suite), realWorker, "")
	b.page("all is well")
	return b
}

// page is what /health answers; without text there is no such page.
func (b *bed) page(text string) {
	b.t.Helper()
	if text == "" {
		b.MustRun(b.t, "rm", pages+"/health")
		return
	}
	require.NoError(b.t, b.WriteFile(pages+"/health", []byte(text+"\n"), 0o644))
}

// reason is the line of systemctl status with the words of notify-exec.
func (d dependency) reason() string {
	d.t.Helper()
	out, _, _ := d.Run(d.t.Context(), "systemctl", "status", "--full", "--lines=0", d.unit) // 3 for a failed unit
	_, rest, _ := strings.Cut(out, "\n     Status: ")
	reason, _, _ := strings.Cut(rest, "\n")
	return reason
}

// awaitReason waits until the reason has a text, and returns the reason.
func (d dependency) awaitReason(text string) string {
	d.t.Helper()
	deadline := time.Now().Add(bound)
	for {
		reason := d.reason()
		if strings.Contains(reason, text) {
			return reason
		}
		require.True(d.t, time.Now().Before(deadline), "never %q: %s", text, reason)
		pause(d.t.Context(), 20*time.Millisecond)
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
func TestDependencyChecks(t *testing.T) { bothSuites(t, testDependencyChecks) }

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
			d := b.dependency(c.name, file+c.passes+"\"\n")
			d.start()
			d.stop()
			d.write("start_timeout = \"5s\"\n" + file + c.fails + "\"\n")
			started := b.begin("systemctl", "start", d.unit)
			t.Log(d.awaitReason(c.reason))
			assert.Error(t, <-started)
			d.stop()
		})
	}
}
