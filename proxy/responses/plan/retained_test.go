package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/responses/wire"
)

// A compaction of many small messages does not become as many items.
func TestCompactedItems(t *testing.T) {
	items := compactedItems(wire.Compacted{Summary: "s", Standing: []string{"Be brief.", "Be kind."}}, newSaid())
	assert.Len(t, items, 2)
	assert.Contains(t, string(items[0]), `"Be brief.\n\nBe kind."`)

	beside := newSaid()
	beside.add("Be brief.")
	items = compactedItems(wire.Compacted{Summary: "s", Standing: []string{"Be brief.", "Be kind."}}, beside)
	assert.Contains(t, string(items[0]), `"Be kind."`)
	items = compactedItems(wire.Compacted{Summary: "s", Standing: []string{"Be kind."}}, beside)
	assert.Len(t, items, 1, "the conversation has it")
}
