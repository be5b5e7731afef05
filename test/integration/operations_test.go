package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every block of commands in docs/operations.md works as it stands there, and
// in the end everything runs.
func TestOperationsManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	b := newBed(t, "trixie", realWorker, "")
	b.start()
	blocks := 0
	for _, part := range strings.Split(string(manual), "\n```sh\n")[1:] {
		block, _, ended := strings.Cut(part, "\n```\n")
		require.True(t, ended)
		out, stderr, err := b.Run(t.Context(), "sh", "-ec", block)
		assert.NoError(t, err, "%s\n%s%s", block, out, stderr)
		blocks++
	}
	require.Greater(t, blocks, 8, "the blocks are not found any more")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "ready (ready) since ")
	drain := b.show(workerUnit, "ExecStop")["ExecStop"]
	assert.Contains(t, drain, "--wait=1m")
	assert.NotContains(t, drain, "--wait=5m")
}
