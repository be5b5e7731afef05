package manual

import (
	"os"
	"path/filepath"
	"regexp"
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
