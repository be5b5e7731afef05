package responses

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/openai"
)

// A compaction of many small messages does not become as many items.
func TestCompactedItems(t *testing.T) {
	items := compactedItems(openai.Compacted{Summary: "s", Standing: []string{"Be brief.", "Be kind."}})
	assert.Len(t, items, 2)
	assert.Contains(t, string(items[0]), `"Be brief.\n\nBe kind."`)
}
