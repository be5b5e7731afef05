package api

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
	"codex-proxy/test/nightly"
)

// pythonClients are the files of test/clients/python/cases, and the venvs in which each
// of them runs, the first ones by day. test/clients/python/cases/bed.py documents how to add a case.
var pythonClients = []struct{ cases, venv string }{
	{"openai", "newest"},
	{"openai", "openai1"},
	{"background", "newest"},
	{"types", "newest"},
	{"langchain", "newest"},
	{"langchain_anthropic", "newest"},
	{"anthropic", "newest"},
	{"pydantic_ai", "newest"},
	{"agents", "newest"},
	{"llm", "newest"},
	{"litellm", "litellm"},
	{"aider", "aider"},
	{"openai", "litellm"}, // openai-python 2
	{"background", "litellm"},
}

func newPython(t *testing.T) *bed.Python {
	t.Helper()
	venvs := bed.PythonVenvs(t)
	cases, err := filepath.Abs("../../clients/python/cases")
	require.NoError(t, err)
	b := bed.New(t, bed.Newest, bed.RealWorker, claudeAliases)
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "python"))
	b.Start()
	p := &bed.Python{Bed: b, Venvs: venvs, Cases: cases, Key: key, Examples: examples(t), Alone: filepath.Join(t.TempDir(), "alone")}
	serveKills(p, t)
	return p
}

// serveKills lets the cases kill the worker: they do not see the processes of the machine.
func serveKills(p *bed.Python, t *testing.T) {
	t.Helper()
	l, err := p.Listen("tcp", bed.BedAddr)
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: bed.Bound, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { killWorker(p, w, r) })}
	go func() { _ = server.Serve(l) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
}

// killWorker kills the worker and starts it, without the growing delays and the limit of
// systemd's own restarts: the cases kill many.
func killWorker(p *bed.Python, w http.ResponseWriter, r *http.Request) {
	for _, verb := range []string{"kill --signal=KILL", "reset-failed", "restart"} {
		args := append([]string{"systemctl"}, strings.Fields(verb)...)
		if _, _, err := p.Run(r.Context(), append(args, bed.WorkerUnit)...); err != nil {
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
		for _, c := range pythonClients[:len(pythonClients)-nightly.Or(0, 2)] {
			t.Run(c.cases+" of "+c.venv, func(t *testing.T) {
				t.Parallel()
				run(p, t, c.cases, c.venv)
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
func run(p *bed.Python, t *testing.T, cases, venv string) {
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound)
	defer cancel()
	home := t.TempDir()
	example := strings.NewReplacer("HOST", "127.0.0.1", "MODEL", bed.Model).Replace(p.Examples[cases])
	require.NoError(t, os.WriteFile(filepath.Join(home, "example"), []byte(example), 0o644))
	report := filepath.Join(home, "report.xml")
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(p.Venvs, venv, "bin", "python"), "-m", "pytest", "-q",
		"-p", "no:cacheprovider", "-o", "faulthandler_timeout=60", "--junitxml="+report,
		filepath.Join(p.Cases, "test_"+cases+".py"))
	cmd.Dir, cmd.Env = home, p.Environment(home, venv)
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
