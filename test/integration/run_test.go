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

// `make run`, on a machine that plays the newcomer's host: it boots a
// throwaway systemd inside of it from the built package.
func TestRun(t *testing.T) {
	b := newBed(t, "trixie", realWorker, "")
	program := filepath.Join(t.TempDir(), "try")
	out, err := exec.Command("go", "build", "-o", program, "codex-proxy/test/try").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, b.CopyIn(program, "/opt/try"))
	require.NoError(t, b.CopyIn(os.Getenv("CODEX_PROXY_TEST_DEB"), "/opt/codex-proxy.deb"))

	t.Run("demo", func(t *testing.T) {
		before := b.traces()
		r := b.run()
		said := r.until(t, "nothing stays behind")
		assert.Contains(t, said, "the built-in demo")
		assert.Contains(t, said, "npm install -g @openai/codex")
		answer := b.MustRun(t, "sh", "-c", curlLine(t, said))
		assert.Contains(t, answer, "data: [DONE]")
		assert.Contains(t, answer, `"finish_reason":"stop"`)
		r.interrupt(t)
		assert.Equal(t, before, b.traces(), "something stayed behind")
	})

	t.Run("endpoint", func(t *testing.T) {
		began := time.Now()
		r := b.run("MODEL_ENDPOINT=http://"+modelAddr+"/v1", "CODEX="+codexDir+"/bin/codex")
		said := r.until(t, "nothing stays behind")
		assert.Less(t, time.Since(began), 30*time.Second, "a second run must be quick")
		assert.Contains(t, said, codexDir+"/bin/codex against http://"+modelAddr)
		require.NoError(t, b.models.Script("text hello from the endpoint"))
		assert.Contains(t, b.MustRun(t, "sh", "-c", curlLine(t, said)), `"content":"hello from the endpoint"`)
		assert.Len(t, b.models.Turns(), 1)
		r.interrupt(t)
	})

	t.Run("login", func(t *testing.T) {
		b.MustRun(t, "sh", "-c", "mkdir -p -m 700 /root/.codex && echo sk-test | "+codexDir+"/bin/codex login --with-api-key")
		r := b.run("CODEX=" + codexDir + "/bin/codex")
		said := r.until(t, "nothing stays behind")
		assert.Contains(t, said, "with the login in /root/.codex")
		models := b.MustRun(t, "curl", "-s", base+"/v1/models")
		assert.Contains(t, models, `"id":"gpt-5`)
		r.interrupt(t)
	})
}

// curlLine is the command that the greeting tells the newcomer to try.
func curlLine(t *testing.T, greeting string) string {
	t.Helper()
	_, rest, ok := strings.Cut(greeting, "  try ")
	require.True(t, ok, greeting)
	line, _, _ := strings.Cut(rest, "\n  stop")
	return line
}

// traces is what could stay behind: mounts, cgroups, files, processes, listeners.
func (b *bed) traces() string {
	b.t.Helper()
	return b.MustRun(b.t, "sh", "-c", `cat /proc/self/mounts; ls -d /sys/fs/cgroup/*/; ls -A /tmp /var/tmp /run /opt /etc
		ps -e -o args= --sort=args; grep " 0A " /proc/net/tcp || true`)
}

// running is a `make run`.
type running struct {
	bed   *bed
	lines *bufio.Scanner
	done  chan error
}

func (b *bed) run(env ...string) *running {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	b.t.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &running{bed: b, lines: bufio.NewScanner(reader), done: make(chan error, 1)}
	go func() {
		r.done <- b.Exec(ctx, machine.Exec{
			Args: []string{"/opt/try", "-deb", "/opt/codex-proxy.deb"}, Env: append(env, "HOME=/root"), Stdout: writer, Stderr: writer,
		})
		_ = writer.Close()
	}()
	return r
}

// until returns what was said up to the line with text.
func (r *running) until(t *testing.T, text string) string {
	t.Helper()
	var said strings.Builder
	for r.lines.Scan() {
		said.WriteString(r.lines.Text() + "\n")
		if strings.Contains(r.lines.Text(), text) {
			return said.String()
		}
	}
	require.Fail(t, "ended without saying "+text, said.String())
	return ""
}

// interrupt is Ctrl-C.
func (r *running) interrupt(t *testing.T) {
	t.Helper()
	processes, err := r.bed.Processes("init.scope")
	require.NoError(t, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, "/opt/try ") {
			require.NoError(t, unix.Kill(p.Host, unix.SIGINT))
		}
	}
	for r.lines.Scan() { // what it still says must not block it
	}
	require.NoError(t, <-r.done)
}
