package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/manual"
)

// follow runs the commands of a manual, as they stand there.
func (b *bed) follow(m *manual.Manual) {
	b.t.Helper()
	for _, block := range m.Commands() {
		out, stderr, err := b.Run(b.t.Context(), "sh", "-ec", block)
		assert.NoError(b.t, err, "%s\n%s%s", block, out, stderr)
	}
}

// Every block of commands in docs/operations.md works as it stands there, and
// in the end everything runs.
func TestOperationsManual(t *testing.T) {
	b := newBed(t, "trixie", realWorker, "")
	b.start()
	b.follow(manual.Open(t, "docs/operations.md"))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "ready (ready) since ")
	drain := b.show(workerUnit, "ExecStop")["ExecStop"]
	assert.Contains(t, drain, "--wait=1m")
	assert.NotContains(t, drain, "--wait=5m")
}
