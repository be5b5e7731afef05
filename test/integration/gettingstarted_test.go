package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

// A newcomer's way through docs/getting-started.md, on a machine with the package
// and codex and nothing else.
func TestGettingStarted(t *testing.T) { bothSuites(t, testGettingStarted) }

func testGettingStarted(t *testing.T, suite string) {
	b := emptyBed(t, suite)
	out, err := b.InstallDeb(t.Context(), os.Getenv("CODEX_PROXY_TEST_DEB"))
	require.NoError(t, err, out)
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	require.NoError(t, b.models.Script("text Hello, newcomer."))
	var said strings.Builder
	for _, block := range manual.Open(t, "docs/getting-started.md").Commands() {
		out, stderr, err := b.Run(t.Context(), "sh", "-ec", block)
		require.NoError(t, err, "%s\n%s%s", block, out, stderr)
		said.WriteString(out)
	}
	assert.Contains(t, said.String(), `"content":"Hello, newcomer."`)
	assert.Contains(t, said.String(), "ready (ready) since ")
	assert.Contains(t, said.String(), "sk-codex-", "alice's key is shown, once")
}
