package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The setting of the default summary takes effect at a reload, and reaches the model
// endpoint for a request that names no summary.
func TestSummary(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker+`models = ["`+reasoner+`"]`+"\n", "")
	b.Start()
	_, body, _ := complete(b, t, justHi, "reasoning hm", "text ok")
	assert.NotContains(t, body, "reasoning_content")

	const config = "[models]\nreasoning_summary = \"concise\"\n"
	require.NoError(t, b.WriteFile("/etc/codex-proxy/config.toml", []byte(config), 0o644))
	b.MustRun(t, "systemctl", "reload", "codex-proxy")
	b.HTTP.CloseIdleConnections() // the process before still answers on them
	_, body, asked := complete(b, t, justHi, "reasoning hm", "text ok")
	assert.Contains(t, body, `"reasoning_content":"hm"`)
	assert.Equal(t, "concise", asked.Reasoning.Summary)

	_, body, asked = complete(b, t, `"reasoning":{"summary":"none"},`+justHi, "reasoning hm", "text ok")
	assert.NotContains(t, body, "reasoning_content")
	assert.Empty(t, asked.Reasoning.Summary)
}
