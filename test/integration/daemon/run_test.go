package daemon

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// `make run` in each of the README's ways, on a machine that plays the newcomer's host.
func TestRun(t *testing.T) {
	t.Parallel()
	b := newcomer(t)
	endpoint := "MODEL_ENDPOINT=http://" + bed.ModelAddr + "/v1"
	named := "CODEX=" + bed.CodexDir + "/bin/codex"

	t.Run("demo", func(t *testing.T) {
		before := traces(b)
		r := run(b, nil)
		output := r.Until(t, "nothing stays behind")
		assert.Contains(t, output, "the built-in demo")
		assert.Contains(t, output, "npm install -g @openai/codex")
		answer := b.MustRun(t, "sh", "-c", curlLine(t, output))
		look := regexp.MustCompile(`look +sudo (nsenter .* codex-proxy console)`).FindStringSubmatch(output)
		require.Len(t, look, 2, output)
		link := b.MustRun(t, "sh", "-ec", "mkfifo /run/link; "+look[1]+" >/run/link 2>/dev/null </dev/null & "+
			"head -n 1 /run/link; pkill -INT -f 'codex-proxy console$'; wait; rm /run/link")
		assert.Regexp(t, `^http://127\.0\.0\.1:8788/#\S+\n$`, link)
		assert.Contains(t, answer, "data: [DONE]")
		assert.Contains(t, answer, `"finish_reason":"stop"`)
		interrupt(r, t)
		deadline, after := time.Now().Add(bed.Bound), traces(b)
		for after != before && time.Now().Before(deadline) { // another program of the machine may run for a moment
			bed.Pause(t.Context(), 100*time.Millisecond)
			after = traces(b)
		}
		assert.Equal(t, before, after, "something stayed behind")
	})

	t.Run("endpoint", func(t *testing.T) {
		began := time.Now()
		r := run(b, nil, endpoint, named)
		output := r.Until(t, "nothing stays behind")
		assert.Less(t, time.Since(began), bed.Bound, "a second run must be quick")
		assert.Contains(t, output, bed.CodexDir+"/bin/codex against http://"+bed.ModelAddr)
		require.NoError(t, b.Models.Script("text hello from the endpoint"))
		assert.Contains(t, b.MustRun(t, "sh", "-c", curlLine(t, output)), `"content":"hello from the endpoint"`)
		assert.Len(t, b.Models.Turns(), 1)
		interrupt(r, t)
	})

	t.Run("endpoint without a codex on PATH", func(t *testing.T) {
		r := run(b, nil, endpoint)
		assert.Contains(t, r.Until(t, "nothing stays behind"), "/node_modules/@openai/codex")
		interrupt(r, t)
	})

	t.Run("login", func(t *testing.T) {
		b.MustRun(t, "sh", "-c",
			"mkdir -p -m 700 /root/.codex && echo sk-test | "+bed.CodexDir+"/bin/codex login --with-api-key")
		r := run(b, []string{named})
		output := r.Until(t, "nothing stays behind")
		assert.Contains(t, output, "with the login in /root/.codex")
		models := b.MustRun(t, "curl", "-s", bed.Base+"/v1/models")
		assert.Contains(t, models, `"id":"gpt-5`)
		interrupt(r, t)
	})

	t.Run("codex on PATH and a login", func(t *testing.T) {
		b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
		r := run(b, nil)
		assert.Contains(t, r.Until(t, "nothing stays behind"), bed.CodexDir+"/bin/codex with the login in /root/.codex")
		interrupt(r, t)
	})
}

// newcomer is a machine with the package, the source tree, Go and what Go and
// `make run` have downloaded and compiled on this host, but no network. All are
// at the paths of this host: the compiler's cache depends on them.
func newcomer(t *testing.T) *bed.Bed {
	t.Helper()
	bed.RequireCodex(t)
	top, err := filepath.Abs("../../..")
	require.NoError(t, err)
	npm := filepath.Dir(os.Getenv("CODEX_PROXY_TEST_CODEX")) // where `make run` installs codex
	b := bed.NewOn(t, bed.Neighbours(), bed.RealWorker, "",
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
func traces(b *bed.Bed) string {
	b.T.Helper()
	return b.MustRun(b.T, "sh", "-c", `cat /proc/self/mounts; ls -d /sys/fs/cgroup/*/
		ls -A /tmp /var/tmp /run /opt /etc
		ps -e -o args= --sort=args; grep " 0A " /proc/net/tcp || true`)
}

// run is `make run` with these arguments, in an environment with these variables.
func run(b *bed.Bed, env []string, args ...string) *bed.Running {
	b.T.Helper()
	top, err := filepath.Abs("../../..")
	require.NoError(b.T, err)
	npm := filepath.Dir(os.Getenv("CODEX_PROXY_TEST_CODEX")) // CACHE/codex-proxy/codex-HASH
	command := append([]string{
		"env", "HOME=/root", "XDG_CACHE_HOME=" + filepath.Dir(filepath.Dir(npm)),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + goenv(b.T, "GOROOT") + "/bin",
		"GOMODCACHE=" + goenv(b.T, "GOMODCACHE"), "GOCACHE=" + goenv(b.T, "GOCACHE"),
		"GOPROXY=off", "GOTOOLCHAIN=local",
	}, env...)
	command = append(append(command, "make", "-C", top, "run"), args...)
	ctx, cancel := context.WithTimeout(b.T.Context(), 3*bed.Bound)
	b.T.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &bed.Running{Bed: b, Lines: bufio.NewScanner(reader), Done: make(chan error, 1)}
	go func() {
		r.Done <- b.Exec(ctx, machine.Exec{Args: command, Stdout: writer, Stderr: writer})
		_ = writer.Close()
	}()
	return r
}

// interrupt is Ctrl-C.
func interrupt(r *bed.Running, t *testing.T) {
	t.Helper()
	processes, err := r.Bed.Processes("init.scope")
	require.NoError(t, err)
	for _, p := range processes {
		if strings.HasPrefix(p.Command, "build/try/try ") {
			require.NoError(t, unix.Kill(p.Host, unix.SIGINT))
		}
	}
	for r.Lines.Scan() { // it must not block on its output
	}
	require.NoError(t, <-r.Done)
}
