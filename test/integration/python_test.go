package integration

import (
	"bytes"
	"context"
	"encoding/xml"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
)

// pythonClients are the files of test/clients/python/cases, and the venvs in which each
// of them runs. test/clients/python/cases/bed.py documents how to add a case.
var pythonClients = []struct{ cases, venv string }{
	{"openai", "newest"},
	{"openai", "openai1"},
	{"openai", "litellm"}, // openai-python 2
	{"background", "newest"},
	{"background", "litellm"},
	{"types", "newest"},
	{"langchain", "newest"},
	{"langchain_anthropic", "newest"},
	{"anthropic", "newest"},
	{"pydantic_ai", "newest"},
	{"agents", "newest"},
	{"llm", "newest"},
	{"litellm", "litellm"},
	{"aider", "aider"},
}

const (
	// bedAddr is where a case has the worker killed.
	bedAddr = "127.0.0.1:18081"
	// clientBound bounds all cases of a client.
	clientBound = 5 * time.Minute
)

// python is a bed with clients in Python, whose service requires a key. They are programs
// of the host, in the network of the machine.
type python struct {
	*bed
	venvs, cases, key string
	examples          map[string]string
	alone             string // the file that a case locks which needs the bed for itself
}

// pythonVenvs is the directory of the Python clients.
func pythonVenvs(t *testing.T) string {
	t.Helper()
	venvs := os.Getenv("CODEX_PROXY_TEST_PYTHON")
	if venvs == "" {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal("CODEX_PROXY_TEST_PYTHON is not set; `make test` sets it")
		}
		t.Skip("CODEX_PROXY_TEST_PYTHON is not set; `make test` sets it")
	}
	return venvs
}

func newPython(t *testing.T) *python {
	t.Helper()
	venvs := pythonVenvs(t)
	cases, err := filepath.Abs("../clients/python/cases")
	require.NoError(t, err)
	b := newBed(t, newest, realWorker, claudeAliases)
	key := trim(b.MustRun(t, "codex-proxy", "keys", "add", "python"))
	b.start()
	p := &python{bed: b, venvs: venvs, cases: cases, key: key, examples: examples(t), alone: filepath.Join(t.TempDir(), "alone")}
	p.serveKills(t)
	return p
}

// serveKills lets the cases kill the worker: they do not see the processes of the machine.
func (p *python) serveKills(t *testing.T) {
	t.Helper()
	l, err := p.Listen("tcp", bedAddr)
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: bound, Handler: http.HandlerFunc(p.killWorker)}
	go func() { _ = server.Serve(l) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
}

// killWorker kills the worker and starts it, without the growing delays and the limit of
// systemd's own restarts: the cases kill many.
func (p *python) killWorker(w http.ResponseWriter, r *http.Request) {
	for _, verb := range []string{"kill --signal=KILL", "reset-failed", "restart"} {
		args := append([]string{"systemctl"}, strings.Fields(verb)...)
		if _, _, err := p.Run(r.Context(), append(args, workerUnit)...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
}

// The Python clients work unchanged with the installed service.
func TestPython(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	// The clients run beside each other, and end before the bed does.
	t.Run("clients", func(t *testing.T) {
		for _, c := range pythonClients {
			t.Run(c.cases+" of "+c.venv, func(t *testing.T) {
				t.Parallel()
				p.run(t, c.cases, c.venv)
			})
		}
	})
}

// examples returns the lines to set of the clients' pages, by the names of the cases.
func examples(t *testing.T) map[string]string {
	t.Helper()
	langchain := manual.Open(t, "docs/clients/langchain-python.md")
	openaiPython := manual.Open(t, "docs/clients/openai-python.md")
	return map[string]string{
		"openai":              openaiPython.File("example.py"),
		"background":          openaiPython.File("background.py"),
		"langchain":           langchain.File("example.py"),
		"langchain_anthropic": langchain.File("messages.py"),
		"anthropic":           manual.Open(t, "docs/clients/anthropic-python.md").File("example.py"),
		"pydantic_ai":         manual.Open(t, "docs/clients/pydantic-ai.md").File("example.py"),
		"agents":              manual.Open(t, "docs/clients/agents-sdk-python.md").File("example.py"),
		"litellm":             manual.Open(t, "docs/clients/litellm.md").File("example.py"),
		"llm":                 manual.Open(t, "docs/clients/llm.md").File("extra-openai-models.yaml"),
		"aider":               manual.Open(t, "docs/clients/aider.md").File("aider.conf.yml"),
	}
}

// run runs the cases of a client; each becomes a subtest.
func (p *python) run(t *testing.T, cases, venv string) {
	ctx, cancel := context.WithTimeout(t.Context(), clientBound)
	defer cancel()
	home := t.TempDir()
	example := strings.NewReplacer("HOST", "127.0.0.1", "MODEL", model).Replace(p.examples[cases])
	require.NoError(t, os.WriteFile(filepath.Join(home, "example"), []byte(example), 0o644))
	report := filepath.Join(home, "report.xml")
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(p.venvs, venv, "bin", "python"), "-m", "pytest", "-q",
		"-p", "no:cacheprovider", "-o", "faulthandler_timeout=60", "--junitxml="+report,
		filepath.Join(p.cases, "test_"+cases+".py"))
	cmd.Dir, cmd.Env = home, p.environment(home, venv)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	require.NoError(t, p.StartCommand(cmd))
	err := cmd.Wait()
	results := readCases(t, report)
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			assert.Empty(t, r.faults())
		})
	}
	assert.NotEmpty(t, results)
	assert.NoError(t, err, out.String())
}

// environment has nothing of the host's: the clients find no key, no proxy and no
// settings, and send no telemetry.
func (p *python) environment(home, venv string) []string {
	return []string{
		"PATH=" + filepath.Join(p.venvs, venv, "bin") + ":/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", "OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_KEY=" + p.key,
		"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=" + p.key, "CODEX_PROXY_KEY=" + p.key,
		"BED_WORKER=http://" + bedAddr, "BED_ENDPOINT=http://" + modelAddr, "BED_ALONE=" + p.alone,
		"BED_EXAMPLE=" + filepath.Join(home, "example"),
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False", "OPENAI_AGENTS_DISABLE_TRACING=1",
		"LANGSMITH_TRACING=false", "AIDER_ANALYTICS=false", "DO_NOT_TRACK=1",
	}
}

// pythonCase is a testcase of pytest's report in JUnit's format.
type pythonCase struct {
	Name    string   `xml:"name,attr"`
	Failure []string `xml:"failure"`
	Error   []string `xml:"error"`
	Skipped []string `xml:"skipped"`
}

// faults are what keeps a case from having passed; a case that is skipped shows nothing.
func (c pythonCase) faults() []string { return slices.Concat(c.Failure, c.Error, c.Skipped) }

func readCases(t *testing.T, path string) []pythonCase {
	t.Helper()
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var report struct {
		Cases []pythonCase `xml:"testsuite>testcase"`
	}
	require.NoError(t, xml.Unmarshal(raw, &report))
	return report.Cases
}
