package api

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
)

const (
	// claudeAliases are those of the page of Claude Code.
	claudeAliases = `[models.aliases]
"claude-*" = { model = "` + bed.Model + `" }
`
	// loudAlias is a model whose answers have the summary of their reasoning by default.
	loudAlias = `"loud" = { model = "` + bed.Model + `", summary = "auto" }
`
)

// clients is a bed with clients, whose service requires a key.
type clients struct {
	*bed.Bed
	key  string
	node string // the program, as the machine sees it
}

func newClients(t *testing.T) *clients {
	t.Helper()
	binds, node := bed.NodeClients(t)
	b := bed.New(t, "trixie", bed.RealWorker+"models = [\"gpt-5.5\"]\n", claudeAliases+loudAlias, binds...)
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "clients"))
	b.Start()
	return &clients{b, key, node}
}

// run runs cases in the machine; their output goes to the test's log.
func (c *clients) run(t *testing.T, args ...string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 8*bed.Bound)
	defer cancel()
	var out bytes.Buffer
	err := c.Exec(ctx, machine.Exec{Args: append([]string{c.node}, args...), Env: []string{"API_KEY=" + c.key,
		"CODEX_PROXY_KEY=" + c.key, "NODE_COMPILE_CACHE=/var/tmp/node-compile-cache"},
		Stdout: &out, Stderr: &out})
	t.Logf("%v\n%s", args, out.String())
	return err
}

// sdk is openai-go.
func (c *clients) sdk(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(bed.Base + "/v1"), option.WithAPIKey(c.key),
		option.WithHTTPClient(c.HTTP), option.WithMaxRetries(0)}, options...)...)
}

// The official clients, and one other, work unchanged with the installed service.
func TestClients(t *testing.T) {
	t.Parallel()
	c := newClients(t)
	programs := c.writePages(t)
	retried := []<-chan error{
		c.refusedOnce(t, "retried-by-npm", func() error { return c.run(t, bed.ClientsDir+"/cases/retries.mjs") }),
		c.refusedOnce(t, "retried-by-go", func() error { return c.retriedByGo(t) }),
	}
	t.Run("openai-go", c.openaiGo)
	t.Run("openai-go responses", c.openaiGoResponses)
	t.Run("openai-go background", c.openaiGoBackground)
	t.Run("npm", func(t *testing.T) {
		for _, cases := range []string{"*.test.mjs", "programs/qwen.test.mjs", "programs/opencode.test.mjs",
			"programs/claude.test.mjs", "programs/router.test.mjs"} {
			t.Run(cases, func(t *testing.T) {
				t.Parallel()
				assert.NoError(t, c.run(t, "--test", "--test-isolation=none", "--test-reporter=spec",
					bed.ClientsDir+"/cases/"+cases))
			})
		}
	})
	t.Run("pages", func(t *testing.T) {
		for _, program := range programs {
			assert.NoError(t, c.run(t, program), program)
		}
		assert.Len(t, bed.TurnsWith(c.Bed, `"Hello"`), len(programs))
	})
	t.Run("retries", func(t *testing.T) {
		for _, r := range retried {
			assert.NoError(t, <-r)
		}
	})
	t.Run("worker restart", c.restarted)
}

// writePages makes the files of the clients' pages, with the address and the model of the
// tests: programs that print an answer, and a file that the cases use.
func (c *clients) writePages(t *testing.T) (programs []string) {
	t.Helper()
	versions, err := os.ReadFile("../../clients/package.json")
	require.NoError(t, err)
	ours := strings.NewReplacer("http://HOST:8787", bed.Base, "MODEL", "loud")
	claude := manual.Open(t, "docs/clients/claude-code.md")
	assert.Equal(t, claudeAliases, strings.ReplaceAll(claude.File("claude-code.toml"), "MODEL", bed.Model))
	for _, p := range []struct {
		page   *manual.Manual
		client string
		files  []string
	}{
		{manual.Open(t, "docs/clients/anthropic-node.md"), "@anthropic-ai/sdk", []string{"anthropic-node.mjs"}},
		{claude, "@anthropic-ai/claude-code-linux-x64", []string{"claude-code.json"}},
		{manual.Open(t, "docs/clients/claude-code-router.md"), "@musistudio/claude-code-router",
			[]string{"claude-code-router.json"}},
		{manual.Open(t, "docs/clients/genkit.md"), "genkit", []string{"genkit.mjs"}},
		{manual.Open(t, "docs/clients/langchain-js.md"), "@langchain/openai",
			[]string{"langchain-js.mjs", "langchain-anthropic.mjs"}},
		{manual.Open(t, "docs/clients/openai-agents-js.md"), "@openai/agents", []string{"openai-agents-js.mjs"}},
		{manual.Open(t, "docs/clients/openai-node.md"), "openai", []string{"openai-node.mjs"}},
		{manual.Open(t, "docs/clients/opencode.md"), "opencode-linux-x64-baseline", []string{"opencode.json"}},
		{manual.Open(t, "docs/clients/qwen-code.md"), "@qwen-code/qwen-code", nil},
		{manual.Open(t, "docs/clients/vercel-ai-sdk.md"), "ai", []string{"vercel-ai-sdk.mjs", "ai-sdk-anthropic.mjs"}},
	} {
		assert.Contains(t, string(versions), fmt.Sprintf("%q: %q", p.client, p.page.Tested()))
		for _, name := range p.files {
			file := bed.ClientsDir + "/pages/" + name
			require.NoError(t, c.WriteFile(file, []byte(ours.Replace(p.page.File(name))), 0o644))
			if filepath.Ext(file) == ".mjs" {
				programs = append(programs, file)
			}
		}
	}
	return programs
}

// restarted kills the worker in the middle of turns. They run again, and then the model
// endpoint refuses each once, which the clients' own retries have to mend.
func (c *clients) restarted(t *testing.T) {
	const clients = 6 // of restarted.mjs
	before := len(c.Models.Turns())
	require.NoError(t, c.Models.Add(
		modelserver.Script{Times: clients, Steps: []string{"gate restarted"}},
		modelserver.Script{Times: clients, Steps: []string{"error 503"}}))
	done := make(chan error, 1)
	go func() { done <- c.run(t, bed.ClientsDir+"/cases/restarted.mjs") }()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := c.Models.Wait(ctx, modelserver.AtGate("restarted", clients))
	require.NoError(t, err)
	c.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.WorkerUnit)
	require.NoError(t, <-done)
	assert.Len(t, c.Models.Turns()[before:], 3*clients, "a turn that is lost, one that is refused, one that is answered")
}

// refusedOnce makes the model endpoint refuse two requests with the word, and returns when
// the clients of do have made them; they wait for the time of Retry-After.
func (c *clients) refusedOnce(t *testing.T, word string, do func() error) <-chan error {
	t.Helper()
	turns := len(c.Models.Turns())
	require.NoError(t, c.Models.Add(modelserver.Script{Word: word, Steps: []string{"error 429"}},
		modelserver.Script{Word: word, Steps: []string{"error 503"}}))
	done := make(chan error, 1)
	go func() { done <- do() }()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := c.Models.Wait(ctx, modelserver.AtLeast(turns+2))
	require.NoError(t, err)
	return done
}
