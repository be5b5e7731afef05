package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain lets the test program be the one that TestOwnerKilled kills.
func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := orphan(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hello answers any connection with one HTTP response.
var hello = []File{
	{Path: "/etc/systemd/system/hello.socket", Data: []byte("[Socket]\nListenStream=/run/hello.sock\nAccept=yes\n")},
	{Path: "/etc/systemd/system/hello@.service", Data: []byte("[Service]\nStandardInput=socket\n" +
		`ExecStart=/bin/sh -c 'read line; printf "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: ` +
		`close\r\n\r\nhello"; cat >/dev/null'` + "\n")},
}

func TestDebian(t *testing.T) {
	for _, suite := range []string{"trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			server := serve(t)
			port := File{Path: "/etc/systemd/system/hello.socket.d/port.conf",
				Data: []byte("[Socket]\nListenStream=" + server.Listener.Addr().String() + "\n")}
			m := Boot(t, Debian(suite), Options{Files: append([]File{port}, hello...), Units: []string{"hello.socket"}})
			assert.Equal(t, "running\n", m.MustRun(t, "systemctl", "is-system-running"))
			before := must(m.CPU())(t)
			m.MustRun(t, "sh", "-c", "i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done")
			assert.Greater(t, must(m.CPU())(t), before)
			assert.Contains(t, string(must(m.ReadFile("/etc/os-release"))(t)), "VERSION_CODENAME="+suite)
			assert.NotContains(t, m.MustRun(t, "cat", "/proc/self/mountinfo"), "/proc/sys")

			t.Run("a user may talk to the bus and is judged by polkit", func(t *testing.T) {
				_, stderr, err := m.Run(t.Context(), "runuser", "-u", "nobody", "--", "systemctl",
					"--no-ask-password", "start", "hello.socket")
				require.Error(t, err)
				assert.Contains(t, stderr, "nteractive authentication required")
				assert.Equal(t, "active\n", m.MustRun(t, "systemctl", "is-active", "polkit.service"))
			})
			t.Run("a polkit rule is obeyed", func(t *testing.T) {
				rule := `polkit.addRule(function(a, s) { if (s.user == "nobody" && a.lookup("unit") == ` +
					`"hello.socket") return polkit.Result.YES; });`
				require.NoError(t, m.WriteFile("/etc/polkit-1/rules.d/10-hello.rules", []byte(rule), 0o644))
				m.MustRun(t, "systemctl", "restart", "polkit.service")
				m.MustRun(t, "runuser", "-u", "nobody", "--", "systemctl", "start", "hello.socket")
			})
			t.Run("http", func(t *testing.T) {
				assert.Equal(t, "hello", get(t, m.HTTPClient(), server.URL))
				assert.Equal(t, "from the host", get(t, server.Client(), server.URL),
					"the machine's port must not be on the host")
			})
			t.Run("properties are as systemctl shows them", func(t *testing.T) {
				for _, unit := range []string{"dbus.service", "systemd-journald.service", "no-such.service"} {
					values, ok := m.ask(t.Context(), unit, slices.Collect(maps.Keys(asked)))
					require.True(t, ok, unit)
					for p, value := range values {
						assert.Equal(t, m.MustRun(t, "systemctl", "show", "--value", "--property="+p, unit), value+"\n", "%s of %s", p, unit)
					}
				}
			})
			t.Run("json journal", func(t *testing.T) {
				m.MustRun(t, "logger", "--tag=test", "a line")
				out, err := m.Journal(t.Context(), "--output=json", "SYSLOG_IDENTIFIER=test")
				require.NoError(t, err)
				var entry map[string]string
				require.NoError(t, json.Unmarshal([]byte(out), &entry))
				assert.Equal(t, "a line", entry["MESSAGE"])
			})
		})
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o755))
	m := Boot(t, Debian("trixie"), Options{
		Files: hello,
		Empty: []string{"/etc/apt"},
		Binds: []Bind{{Source: dir, Target: "/opt/ro", ReadOnly: true}, {Source: dir, Target: "/opt/rw"}},
	})

	assert.Equal(t, "tool\n", m.MustRun(t, "/opt/ro/tool"))
	assert.Error(t, second(m.Run(t.Context(), "touch", "/opt/ro/new")))
	m.MustRun(t, "touch", "/opt/rw/new")
	assert.FileExists(t, filepath.Join(dir, "new"))
	assert.Empty(t, m.MustRun(t, "ls", "-A", "/etc/apt"))

	require.NoError(t, m.CopyIn(filepath.Join(dir, "tool"), "/opt/deep/er/tool"))
	assert.Equal(t, "tool\n", m.MustRun(t, "/opt/deep/er/tool"))

	m.MustRun(t, "ln", "-s", "/etc/target", "/etc/link")
	require.NoError(t, m.WriteFile("/etc/link", []byte("inside"), 0o600))
	assert.NoFileExists(t, "/etc/target", "an absolute symlink must not lead out of the machine")
	assert.Equal(t, "600 inside", m.MustRun(t, "sh", "-c", "stat --printf='%a ' /etc/target; cat /etc/target"))

	m.MustRun(t, "systemctl", "start", "hello.socket")
	m.MustRun(t, "ln", "-s", "/run/hello.sock", "/etc/hello.sock")
	conn, err := m.DialUnix(t.Context(), "/etc/hello.sock")
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /\r\n"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	assert.Contains(t, string(must(io.ReadAll(conn))(t)), "hello")
}

func TestExec(t *testing.T) {
	t.Parallel()
	m := Boot(t, Debian("trixie"), Options{})
	var out bytes.Buffer
	require.NoError(t, m.Exec(t.Context(), Exec{Args: []string{"sh", "-c", "echo $WHAT; cat"},
		Env: []string{"WHAT=env"}, Stdin: strings.NewReader("in"), Stdout: &out}))
	assert.Equal(t, "env\nin", out.String())

	stdout, stderr, err := m.Run(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 3")
	assert.Equal(t, "out\n", stdout)
	assert.Equal(t, "err\n", stderr)
	assert.ErrorContains(t, err, "exit status 3: err")

	assert.ErrorContains(t, second(m.Run(t.Context(), "no-such-command")), "not found")
	assert.Equal(t, "0::/init.scope\n", m.MustRun(t, "grep", "^0", "/proc/self/cgroup"))
}

// TestKill kills a unit from the host and learns of it from systemd.
func TestKill(t *testing.T) {
	t.Parallel()
	m := Boot(t, Debian("trixie"), Options{})
	m.MustRun(t, "systemd-run", "--quiet", "--unit=victim", "--property=Type=exec", "sleep", "60")

	processes, err := m.Processes("victim.service")
	require.NoError(t, err)
	require.Len(t, processes, 1)
	assert.Equal(t, "/usr/bin/sleep 60", processes[0].Command)
	pid, err := m.MainPID(t.Context(), "victim.service")
	require.NoError(t, err)
	assert.Equal(t, processes[0].Host, pid)

	require.NoError(t, m.Kill(t.Context(), "victim.service", 9))
	assert.Eventually(t, func() bool {
		p, err := m.Show(t.Context(), "victim.service", "Result", "ExecMainStatus")
		return err == nil && p["Result"] == "signal" && p["ExecMainStatus"] == "9"
	}, waitLimit, waitStep)
}

func TestHost(t *testing.T) {
	t.Parallel()
	server := serve(t)
	m := Boot(t, Host(), Options{ShareNetwork: true, Units: []string{"dbus.service"}})

	assert.Equal(t, "running\n", m.MustRun(t, "systemctl", "is-system-running"))
	m.MustRun(t, "busctl", "--no-pager", "list")
	m.MustRun(t, "touch", "/etc/written-by-a-machine")
	assert.NoFileExists(t, "/etc/written-by-a-machine")
	assert.Equal(t, "from the host", get(t, m.HTTPClient(), server.URL))
	present, missing := m.Controllers()
	assert.ElementsMatch(t, []string{"memory", "cpu", "pids", "io"}, append(present, missing...))
}

// serve is a server on a free port of the host.
func serve(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "from the host")
	}))
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	res, err := client.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	return string(must(io.ReadAll(res.Body))(t))
}

// must lets a call with an error stand in an expression.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func second(_, _ string, err error) error { return err }
