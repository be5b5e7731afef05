package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place is a directory of the source in a document.
var place = regexp.MustCompile("`((?:cmd|notify|units|probes|proxy|internal|packaging|test)(?:/[a-z-]+)*|" +
	"(?:codex|workers|remotes|dependencies|runner|daemon)(?:/[a-z-]+)+)`")

// Every directory that docs/architecture.md names exists.
func TestArchitectureNamesPlacesThatExist(t *testing.T) {
	root := Root(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	require.NoError(t, err)
	places := place.FindAllSubmatch(text, -1)
	require.NotEmpty(t, places)
	for _, p := range places {
		assert.DirExists(t, filepath.Join(root, string(p[1])))
	}
}

// The words of the glossary are few, and those of this project alone fewer: for a new one, find the field's word first.
func TestGlossaryIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Root(t), "docs/architecture.md"))
	require.NoError(t, err)
	_, glossary, found := strings.Cut(string(text), "## Glossary\n")
	require.True(t, found)
	_, ours, _ := strings.Cut(glossary, "| word | means here |")
	ours, field, found := strings.Cut(ours, "| word | means |")
	require.True(t, found)
	rows := func(table string) int { return strings.Count(table, "\n| ") }
	assert.LessOrEqual(t, rows(ours), 8, "words of this project alone")
	assert.LessOrEqual(t, rows(ours)+rows(field), 30, "words of the glossary")
}
