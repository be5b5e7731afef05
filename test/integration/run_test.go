package integration

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/machine"
)

// `make run` in each of the README's ways, on a machine that plays the newcomer's host.
func TestRun(t *testing.T) {
	t.Parallel()
	b := newcomer(t)
	endpoint := "MODEL_ENDPOINT=http://" + modelAddr + "/v1"
	named := "CODEX=" + codexDir + "/bin/codex"

	t.Run("demo", func(t *testing.T) {
		before := b.traces()
		r := b.run(nil)
		output := r.until(t, "nothing stays behind")
		assert.Contains(t, output, "the built-in demo")
		assert.Contains(t, output, "npm install -g @openai/codex")
		answer := b.MustRun(t, "sh", "-c", curlLine(t, output))
		assert.Contains(t, answer, "data: [DONE]")
		assert.Contains(t, answer, `"finish_reason":"stop"`)
		r.interrupt(t)
		deadline, after := time.Now().Add(bound), b.traces()
		for after != before && time.Now().Before(deadline) { // another program of the machine may run for a moment
			pause(t.Context(), 100*time.Millisecond)
			after = b.traces()
		}
		assert.Equal(t, before, after, "something stayed behind")
	})

	t.Run("endpoint", func(t *testing.T) {
		began := time.Now()
		r := b.run(nil, endpoint, named)
		output := r.until(t, "nothing stays behind")
		assert.Less(t, time.Since(began), bound, "a second run must be quick")
		assert.Contains(t, output, codexDir+"/bin/codex against http://"+modelAddr)
		require.NoError(t, b.models.Script("text hello from the endpoint"))
		assert.Contains(t, b.MustRun(t, "sh", "-c", curlLine(t, output)), `"content":"hello from the endpoint"`)
		assert.Len(t, b.models.Turns(), 1)
		r.interrupt(t)
	})

	t.Run("endpoint without a codex on PATH", func(t *testing.T) {
		r := b.run(nil, endpoint)
		assert.Contains(t, r.until(t, "nothing stays behind"), "/node_modules/@openai/codex")
		r.interrupt(t)
	})

	t.Run("login", func(t *testing.T) {
		b.MustRun(t, "sh", "-c",
			"mkdir -p -m 700 /root/.codex && echo sk-test | "+codexDir+"/bin/codex login --with-api-key")
		r := b.run([]string{named})
		output := r.until(t, "nothing stays behind")
		assert.Contains(t, output, "with the login in /root/.codex")
		models := b.MustRun(t, "curl", "-s", base+"/v1/models")
		assert.Contains(t, models, `"id":"gpt-5`)
		r.interrupt(t)
	})

	t.Run("codex on PATH and a login", func(t *testing.T) {
		b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
		r := b.run(nil)
		assert.Contains(t, r.until(t, "nothing stays behind"), codexDir+"/bin/codex with the login in /root/.codex")
		r.interrupt(t)
	})
}

// newcomer is a machine with the package, the source tree, Go and what Go and
// `make run` have downloaded and compiled on this host, but no network. All are
// at the paths of this host: the compiler's cache depends on them.
func newcomer(t *testing.T) *bed {
	t.Helper()
	requireCodex(t)
	top, err := filepath.Abs("../..")
	require.NoError(t, err)
	npm := filepath.Dir(os.Getenv("CODEX_PROXY_TEST_CODEX")) // where `make run` installs codex
	b := newBedOn(t, neighbours(), realWorker, "",
		same(top, true), machine.Bind{Source: t.TempDir(), Target: top + "/build"}, same(npm, true),
		same(goenv(t, "GOROOT"), true), same(goenv(t, "GOMODCACHE"), true), same(goenv(t, "GOCACHE"), false))
	b.MustRun(t, "mkdir", "--parents", "/root/.config/go") // the Go command's, for its counters
	return b
}

// same shows a directory of the host at the same path in the machine.
func same(dir string, readOnly bool) machine.Bind {
	return machine.Bind{Source: dir, Target: dir, ReadOnly: readOnly}
}

func goenv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// curlLine is the command in the greeting.
func curlLine(t *testing.T, greeting string) string {
	t.Helper()
	_, rest, ok := strings.Cut(greeting, "  try ")
	require.True(t, ok, greeting)
	line, _, _ := strings.Cut(rest, "\n  stop")
	return line
}

// traces are possible remains: mounts, cgroups, files, processes, listeners.
func (b *bed) traces() string {
	b.t.Helper()
	return b.MustRun(b.t, "sh", "-c", `cat /proc/self/mounts; ls -d /sys/fs/cgroup/*/
		ls -A /tmp /var/tmp /run /opt /etc
		ps -e -o args= --sort=args; grep " 0A " /proc/net/tcp || true`)
}

// running is a `make run`.
type running struct {
	bed   *bed
	lines *bufio.Scanner
	done  chan error
}

// run is `make run` with these arguments, in an environment with these variables.
func (b *bed) run(env []string, args ...string) *running {
	b.t.Helper()
	top, err := filepath.Abs("../..")
	require.NoError(b.t, err)
	npm := filepath.Dir(os.Getenv("CODEX_PROXY_TEST_CODEX")) // CACHE/codex-proxy/codex-HASH
	command := append([]string{
		"env", "HOME=/root", "XDG_CACHE_HOME=" + filepath.Dir(filepath.Dir(npm)),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + goenv(b.t, "GOROOT") + "/bin",
		"GOMODCACHE=" + goenv(b.t, "GOMODCACHE"), "GOCACHE=" + goenv(b.t, "GOCACHE"),
		"GOPROXY=off", "GOTOOLCHAIN=local",
	}, env...)
	command = append(append(command, "make", "-C", top, "run"), args...)
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*bound)
	b.t.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &running{bed: b, lines: bufio.NewScanner(reader), done: make(chan error, 1)}
	go func() {
		r.done <- b.Exec(ctx, machine.Exec{Args: command, Stdout: writer, Stderr: writer})
		_ = writer.Close()
	}()
	return r
}

// until returns the output up to the line with text.
func (r *running) until(t *testing.T, text string) string {
	t.Helper()
	var output strings.Builder
	for r.lines.Scan() {
		output.WriteString(r.lines.Text() + "\n")
		if strings.Contains(r.lines.Text(), text) {
			return output.String()
		}
	}
	require.Fail(t, "ended without "+text, output.String())
	return ""
}

// interrupt is Ctrl-C.
func (r *running) interrupt(t *testing.T) {
	t.Helper()
	processes, err := r.bed.Processes("init.scope")
	require.NoError(t, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, "build/try/try ") {
			require.NoError(t, unix.Kill(p.Host, unix.SIGINT))
		}
	}
	for r.lines.Scan() { // it must not block on its output
	}
	require.NoError(t, <-r.done)
}
