package versions

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStanding(t *testing.T) {
	for version, newer := range map[string]bool{
		"0.140.0": false, fmt.Sprintf("0.%d.9", Tested): false, fmt.Sprintf("0.%d.0-alpha.1", Tested+1): true, "1.0.0": true,
		"": false, "unknown": false, "0": false,
	} {
		assert.Equal(t, newer, Standing(version) != "", version)
	}
}

// The tests run the ends of the range.
func TestRangeIsThatOfTheTests(t *testing.T) {
	for file, want := range map[string]string{
		"package.json":        fmt.Sprintf("0.%d.", Tested),
		"oldest/package.json": fmt.Sprintf("npm:@openai/codex@0.%d.", Oldest),
	} {
		text, err := os.ReadFile("../../test/codex/" + file)
		require.NoError(t, err)
		var locked struct{ Dependencies map[string]string }
		require.NoError(t, json.Unmarshal(text, &locked))
		for _, version := range locked.Dependencies {
			assert.Contains(t, version, want, file)
		}
	}
	between, err := os.ReadFile("../../test/codex/between/package.json")
	require.NoError(t, err)
	for _, minor := range []int{OldestForRemotes, OldestForHere, MarksResponses} {
		assert.Contains(t, string(between), fmt.Sprintf("codex@0.%d.", minor), "the tests run each one that a constant names")
	}
	features, err := os.ReadFile("../../docs/features.md")
	require.NoError(t, err)
	assert.Contains(t, string(features), fmt.Sprintf("Tested with codex 0.%d; 0.%d is the oldest accepted.", Tested, Oldest))
}
