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

// section is a heading of the second level.
var section = regexp.MustCompile(`(?m)^## (.+)$`)

// Each page of a client has the same three sections, the first of which begins with the
// lines to set, and docs/api.md lists it.
func TestClientPages(t *testing.T) {
	root := Root(t)
	index, err := os.ReadFile(filepath.Join(root, "docs/api.md"))
	require.NoError(t, err)
	for _, name := range documents(t, root) {
		page, is := strings.CutPrefix(name, "docs/")
		if !is || !strings.HasPrefix(page, "clients/") {
			continue
		}
		t.Run(page, func(t *testing.T) {
			assert.Contains(t, string(index), "| ["+page+"]("+page+") |", "no row of docs/api.md has the page")
			text, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			var titles []string
			for _, s := range section.FindAllStringSubmatch(string(text), -1) {
				titles = append(titles, s[1])
			}
			assert.Equal(t, []string{"Lines to set", "Works", "Does not work"}, titles)
			assert.Regexp(t, "(?m)^## Lines to set\n\n```[a-z]+( |$)", string(text), "the lines come first")
		})
	}
}
