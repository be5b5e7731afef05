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

var command = regexp.MustCompile(`(?m)^(\$ |# )?(codex-proxy|systemctl|journalctl|curl|apt|make|promtool) [a-z-]`)

// A test opens each document with a runnable block, and then must run it.
func TestEveryCommandIsRun(t *testing.T) {
	root := Root(t)
	tests := sources(t, root)
	for _, name := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		blocks := parse(t, name, string(text))
		for _, b := range blocks {
			assert.False(t, b.language == "" && command.MatchString(b.text),
				"%s:%d: this is a command, in no language", name, b.line)
		}
		for _, b := range blocks {
			if b.runnable() {
				assert.True(t, strings.Contains(tests, `manual.Open(t, "`+name+`")`),
					"no test opens %s, whose line %d is to be run", name, b.line)
				break
			}
		}
	}
}

// documents are the documents of the repository, by their paths from its root.
func documents(t *testing.T, root string) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "STYLE.md"}
	for _, pattern := range []string{"docs/*.md", "docs/clients/*.md"} {
		found, err := fs.Glob(os.DirFS(root), pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		names = append(names, found...)
	}
	return names
}

// sources are all tests of the repository, one behind the other.
func sources(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		all.Write(text)
		return err
	})
	require.NoError(t, err)
	return all.String()
}

func TestParse(t *testing.T) {
	blocks := parse(t, "x.md", "a\n```sh\none\ntwo\n```\n```sh (not run by the tests: it needs a login)\nthree\n```\n"+
		"```yaml file=/etc/x\nfour\n```\n```\nfive\n```\n")
	require.Len(t, blocks, 4)
	assert.Equal(t, block{language: "sh", line: 3, text: "one\ntwo\n"}, *blocks[0])
	assert.Equal(t, "it needs a login", blocks[1].excuse)
	assert.Equal(t, "/etc/x", blocks[2].file)
	assert.Equal(t, []bool{true, false, true, false},
		[]bool{blocks[0].runnable(), blocks[1].runnable(), blocks[2].runnable(), blocks[3].runnable()})
}
