package manual

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var sentenceEnd = regexp.MustCompile(`[.!?](\s|$)`)

// README.md begins with its title and at most five sentences, then has the picture and the commands to try it.
func TestFirstScreen(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Root(t), "README.md"))
	require.NoError(t, err)
	above, below, ok := strings.Cut(string(text), "<img ")
	require.True(t, ok, "README.md has no picture")
	title, sentences, _ := strings.Cut(above, "\n")
	assert.Equal(t, "# codex-proxy", title)
	assert.Equal(t, 1, strings.Count(strings.TrimSpace(sentences), "\n")+1, "one paragraph before the picture")
	assert.LessOrEqual(t, len(sentenceEnd.FindAllString(sentences, -1)), 5, "sentences before the picture")
	screen, _, _ := strings.Cut(below, "\n## ")
	for _, command := range []string{"\nmake run ", "\nsystemctl start codex-proxy "} {
		assert.Contains(t, screen, command, "above the first section")
	}
}

// README.md links to every document, apart from the pages of clients, which docs/api.md lists.
func TestReadmeLinksToEveryDocument(t *testing.T) {
	root := Root(t)
	readme := prose(t, filepath.Join(root, "README.md"))
	names, err := fs.Glob(os.DirFS(root), "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range append(names, "CONTRIBUTING.md", "SECURITY.md", "STYLE.md") {
		assert.Regexp(t, `\]\(`+regexp.QuoteMeta(name)+`[)#]`, readme)
	}
}
