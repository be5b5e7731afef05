package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The setting of the default summary takes effect at a reload, and reaches the model
// endpoint for a request that names no summary.
func TestSummary(t *testing.T) {
	t.Parallel()
	b := newBed(t, "trixie", realWorker+`models = ["`+reasoner+`"]`+"\n", "")
	b.start()
	_, body, _ := b.complete(t, justHi, "reasoning hm", "text ok")
	assert.NotContains(t, body, "reasoning_content")

	const config = "[models]\nreasoning_summary = \"concise\"\n"
	require.NoError(t, b.WriteFile("/etc/codex-proxy/config.toml", []byte(config), 0o644))
	b.MustRun(t, "systemctl", "reload", "codex-proxy")
	b.http.CloseIdleConnections() // the process before still answers on them
	_, body, asked := b.complete(t, justHi, "reasoning hm", "text ok")
	assert.Contains(t, body, `"reasoning_content":"hm"`)
	assert.Equal(t, "concise", asked.Reasoning.Summary)

	_, body, asked = b.complete(t, `"reasoning":{"summary":"none"},`+justHi, "reasoning hm", "text ok")
	assert.NotContains(t, body, "reasoning_content")
	assert.Empty(t, asked.Reasoning.Summary)
}
