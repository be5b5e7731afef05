package api

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
)

// Go's clients and agents work unchanged with the installed service. They are a module
// of their own, whose tests run inside the machine.
func TestGoClients(t *testing.T) {
	t.Parallel()
	b := bed.New(t, bed.Newest, bed.RealWorker, "keepalive = \"1s\"\n")
	const program = "/opt/go-clients"
	require.NoError(t, b.CopyIn(bed.BuildClients(t, "../../clients/go"), program))
	key := bed.Trim(b.MustRun(t, "codex-proxy", "keys", "add", "clients"))
	b.Start()
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound+bed.Bound)
	defer cancel()
	var out bytes.Buffer
	err := b.Exec(ctx, machine.Exec{Args: []string{program, "-test.v", "-test.timeout=" + bed.ClientBound.String()}, Env: []string{"CODEX_PROXY_KEY=" + key},
		Stdout: &out, Stderr: &out})
	t.Log(out.String())
	assert.NoError(t, err)
}

// The pages of Go's clients have the lines of the tests, but for the address and the
// model, and the versions of go.mod.
func TestGoClientPages(t *testing.T) {
	t.Parallel()
	versions, err := os.ReadFile("../../clients/go/go.mod")
	require.NoError(t, err)
	for source, page := range map[string]*manual.Manual{
		"goopenai_test.go":    manual.Open(t, "docs/clients/go-openai.md"),
		"langchaingo_test.go": manual.Open(t, "docs/clients/langchaingo.md"),
	} {
		code, err := os.ReadFile(filepath.Join("../../clients/go", source))
		require.NoError(t, err)
		for line := range strings.Lines(addresses.Replace(page.File("client.go"))) {
			assert.Contains(t, string(code), strings.TrimSpace(line), source)
		}
		assert.Contains(t, string(versions), page.Tested(), source)
	}
}

// addresses are the names of the tests for what a reader replaces in a page.
var addresses = strings.NewReplacer(`"http://HOST:8787/v1"`, "baseURL", `"MODEL"`, "model")
