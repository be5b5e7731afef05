package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

// The steps of docs/getting-started.md, on a machine with the package and codex and
// nothing else.
func TestGettingStarted(t *testing.T) { bed.BothSuites(t, testGettingStarted) }

func testGettingStarted(t *testing.T, suite string) {
	b := bed.Empty(t, suite)
	out, err := b.InstallDeb(t.Context(), os.Getenv("CODEX_PROXY_TEST_DEB"))
	require.NoError(t, err, out)
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	require.NoError(t, b.Models.Script("text Hello, newcomer."))
	var output strings.Builder
	for _, block := range manual.Open(t, "docs/getting-started.md").Commands() {
		out, stderr, err := b.Run(t.Context(), "sh", "-ec", block)
		require.NoError(t, err, "%s\n%s%s", block, out, stderr)
		output.WriteString(out)
	}
	assert.Contains(t, output.String(), `"content":"Hello, newcomer."`)
	assert.Contains(t, output.String(), "ready (ready) since ")
	assert.Contains(t, output.String(), "sk-codex-", "alice's key is shown, once")
}
