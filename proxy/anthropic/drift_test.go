package anthropic

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/contract"
)

// Every name of Anthropic's types is in the table. `make nightly` runs this test with the types of the newest library.
func TestNamesOfTheReferenceAreKnown(t *testing.T) {
	names, err := contract.Names("anthropic.json")
	require.NoError(t, err)
	assert.Len(t, names, 2)
	for _, api := range []string{"messages", "count"} {
		require.NotEmpty(t, names[api])
		for _, name := range names[api] {
			assert.Contains(t, params, name, "%s: give the parameter a rule in the table", api)
		}
	}
}
