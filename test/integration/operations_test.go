package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

// follow runs the commands of a manual unchanged.
func (b *bed) follow(m *manual.Manual) {
	b.t.Helper()
	for _, block := range m.Commands() {
		out, stderr, err := b.Run(b.t.Context(), "sh", "-ec", block)
		assert.NoError(b.t, err, "%s\n%s%s", block, out, stderr)
	}
}

// Every block of commands in docs/operations.md works unchanged, and in the end all
// units run.
func TestOperationsManual(t *testing.T) { bothSuites(t, testOperationsManual) }

func testOperationsManual(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	requests := manual.Open(t, "docs/api.md").Commands()
	ends := []string{"\ndata: [DONE]\n", `"status":"completed"`, "\nevent: response.completed\n", "\nevent: message_stop\n"}
	require.Len(t, requests, len(ends))
	for i, end := range ends {
		assert.Contains(t, b.MustRun(t, "sh", "-ec", strings.Replace(requests[i], "MODEL", model, 1)), end)
	}
	b.follow(manual.Open(t, "docs/operations.md"))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "ready (ready) since ")
	drain := b.show(workerUnit, "ExecStop")["ExecStop"]
	assert.Contains(t, drain, "--wait=1m")
	assert.NotContains(t, drain, "--wait=5m")
}
