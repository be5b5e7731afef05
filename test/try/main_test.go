package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/machine"
)

const asProgram = "TRY_TEST_PROGRAM"

// TestMain lets the test program be try itself, inside a machine.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// stand-ins for the package's units: the proxy answers /readyz with 200 once
// the worker is active, the worker logs what it was given.
const (
	standInTarget = "[Unit]\nWants=codex-proxy.socket codex-worker@default.service\n"
	standInSocket = "[Unit]\nPartOf=codex.target\n[Socket]\nListenStream=127.0.0.1:8787\nAccept=yes\n"
	standInProxy  = `[Service]
StandardInput=socket
StandardError=journal
ExecStart=/bin/sh -c 'systemctl is-active --quiet codex-worker@default && s="200 OK" || s="503 No"; \
  b="{\\"health\\":{\\"readiness\\":{\\"reason\\":\\"handshake_pending\\"}},\\"data\\":[{\\"id\\":\\"stand-in\\"}]}"; \
  printf "HTTP/1.1 %%s\\r\\nContent-Length: $${#b}\\r\\nConnection: close\\r\\n\\r\\n%%s" "$$s" "$$b"; cat >/dev/null'
`
	standInWorker = `[Unit]
PartOf=codex.target
[Service]
Type=notify
NotifyAccess=all
User=codex-worker
StateDirectory=codex-worker/%i
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateUsers=yes
CapabilityBoundingSet=
UMask=0077
Environment=CODEX_HOME=/var/lib/codex-worker/%i
ExecStart=/bin/sh -c 'cat /etc/codex-proxy/workers/%i.toml; \
  grep -q broken /etc/codex-proxy/workers/%i.toml && exit 78; \
  test -L $CODEX_HOME/auth.json && echo sk-renewed | /opt/codex/bin/codex login --with-api-key; \
  systemd-notify --ready; exec sleep infinity'
`
)

// standIn makes a source tree of the stand-ins, and a file that plays the program.
func standIn(t *testing.T) string {
	t.Helper()
	const units = "/usr/lib/systemd/system/"
	tree := t.TempDir()
	manifest := "contents:\n  - {dst: /usr/bin/codex-proxy, src: \"${BIN}\", file_info: {mode: 0755}}\n"
	for path, content := range map[string]string{
		units + "codex.target":                  standInTarget,
		units + "codex-proxy.socket":            standInSocket,
		units + "codex-proxy@.service":          standInProxy,
		units + "codex-worker@.service":         standInWorker,
		"/usr/lib/sysusers.d/codex-proxy.conf":  "u codex-worker - \"worker\"\n",
		"/etc/codex-proxy/workers/default.toml": "from the package\n",
	} {
		writeTree(t, tree, path, content)
		manifest += fmt.Sprintf("  - {dst: %q, src: %q, file_info: {mode: 0644}}\n", path, path[1:])
	}
	writeTree(t, tree, "programs/codex-proxy", "")
	writeTree(t, tree, "programs/codex-runner", "#!/bin/sh\necho the runner was given \"$1\"\n")
	writeTree(t, tree, units+runner, "[Service]\nExecStart=/bin/sleep infinity\n")
	writeTree(t, tree, manifests[0].parts[0], "name: codex-proxy\n")
	writeTree(t, tree, manifests[0].parts[1], manifest)
	writeTree(t, tree, manifests[1].parts[0], "contents:\n  - {dst: /usr/bin/codex-runner, src: \"${BIN}\", file_info: {mode: 0755}}\n")
	writeTree(t, tree, manifests[1].parts[1], "  - {dst: "+units+runner+", src: "+units[1:]+runner+", file_info: {mode: 0644}}\n")
	return tree
}

func writeTree(t *testing.T, tree, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree, path), []byte(content), 0o600))
}

// host boots the machine that plays the person's host: try takes the port
// 8787 of whatever it runs on.
func host(t *testing.T, binds ...machine.Bind) *machine.Machine {
	t.Helper()
	binds = append(binds, machine.Bind{Source: standIn(t), Target: "/opt/tree", ReadOnly: true})
	m := machine.Boot(t, machine.Debian("trixie"), machine.Options{Binds: binds})
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, m.CopyIn(program, "/opt/try"))
	return m
}

// running is a try that was started in a machine.
type running struct {
	lines *bufio.Scanner
	done  chan error
}

func startTry(t *testing.T, m *machine.Machine, env ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	r, w := io.Pipe()
	run := &running{lines: bufio.NewScanner(r), done: make(chan error, 1)}
	go func() {
		run.done <- m.Exec(ctx, machine.Exec{
			Args: []string{"/opt/try", "-tree", "/opt/tree", "-programs", "/opt/tree/programs"},
			Env:  append(env, asProgram+"=1"), Stdout: w, Stderr: w,
		})
		_ = w.Close()
	}()
	return run
}

// until returns what try wrote up to the first line with text.
func (r *running) until(t *testing.T, text string) string {
	t.Helper()
	var output strings.Builder
	for r.lines.Scan() {
		output.WriteString(r.lines.Text() + "\n")
		if strings.Contains(r.lines.Text(), text) {
			return output.String()
		}
	}
	require.Fail(t, "try ended without the text "+text, output.String())
	return ""
}

// rest returns what try still wrote, and how it ended.
func (r *running) rest() (string, error) {
	var output strings.Builder
	for r.lines.Scan() {
		output.WriteString(r.lines.Text() + "\n")
	}
	return output.String(), <-r.done
}

func tryPID(t *testing.T, m *machine.Machine) int {
	t.Helper()
	processes, err := m.Processes("init.scope")
	require.NoError(t, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, "/opt/try ") {
			return p.Host
		}
	}
	require.Fail(t, "try does not run")
	return 0
}

// traces lists what a try could leave on the host: mounts, cgroups, files,
// processes, listeners.
func traces(t *testing.T, m *machine.Machine) string {
	t.Helper()
	return m.MustRun(t, "sh", "-c", `cat /proc/self/mounts; ls -d /sys/fs/cgroup/*/; ls -A /tmp /var/tmp /run /opt /etc
		ps -e -o args= --sort=args; grep " 0A " /proc/net/tcp || true`)
}

func TestDemo(t *testing.T) {
	t.Parallel()
	m := host(t)
	before := traces(t, m)
	await.True(t, func() bool { // systemd forks before it executes a program
		last := before
		before = traces(t, m)
		return before == last
	}, time.Minute)
	first := startTry(t, m)
	output := first.until(t, "stop     Ctrl-C")
	assert.Contains(t, output, "codex-proxy is ready")
	assert.Contains(t, output, "built-in demo")
	assert.Contains(t, output, "npm install -g @openai/codex")
	assert.Contains(t, output, `"model":"stand-in"`)
	first.until(t, "the runner was given run")
	first.until(t, `mode = "demo"`) // the worker's journal is followed

	busy, err := startTry(t, m).rest()
	assert.ErrorContains(t, err, "exit status 1")
	assert.Regexp(t, `127.0.0.1:8787 is in use by systemd \(PID \d+\)`, busy)

	require.NoError(t, unix.Kill(tryPID(t, m), unix.SIGTERM))
	_, err = first.rest()
	require.NoError(t, err)
	after := ""
	await.True(t, func() bool { after = traces(t, m); return after == before }, time.Minute, &after)
}

// TestNeverReady gives the worker a file that it refuses.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	m := host(t)
	m.MustRun(t, "sh", "-c", "cp /bin/true /usr/bin/codex")
	output, err := startTry(t, m, "MODEL_ENDPOINT=http://127.0.0.1:1/v1", "MODEL=broken").rest()
	assert.ErrorContains(t, err, "exit status 1")
	assert.Contains(t, output, "not ready: handshake_pending")
}

// TestLogin has a real codex write its login through the symlink that the
// worker gets, as it does when it renews one.
func TestLogin(t *testing.T) {
	t.Parallel()
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX is not set")
	}
	native, err := filepath.EvalSymlinks(codex)
	require.NoError(t, err)
	m := host(t, machine.Bind{Source: filepath.Dir(filepath.Dir(native)), Target: "/opt/vendor/any", ReadOnly: true})
	m.MustRun(t, "useradd", "--create-home", "person")
	m.MustRun(t, "runuser", "-u", "person", "--", "sh", "-c",
		"mkdir -m 700 ~/.codex && echo {} >~/.codex/auth.json && chmod 600 ~/.codex/auth.json")

	first := startTry(t, m, "CODEX=/opt/vendor/any/bin/codex", "SUDO_USER=person")
	output := first.until(t, "stop     Ctrl-C")
	assert.Contains(t, output, "/opt/vendor/any/bin/codex with the login in /home/person/.codex")
	require.NoError(t, unix.Kill(tryPID(t, m), unix.SIGTERM))
	output, err = first.rest()
	require.NoError(t, err, output)
	assert.Contains(t, m.MustRun(t, "cat", "/home/person/.codex/auth.json"), "sk-renewed")
	assert.Equal(t, "person 600\n", m.MustRun(t, "stat", "--format=%U %a", "/home/person/.codex/auth.json"))
}
