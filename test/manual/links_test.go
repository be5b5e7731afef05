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

var (
	link       = regexp.MustCompile(`(?:\]\(|<img src=")([^)"\s]+)[)"]`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	notInSlugs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Each link of a document to another one leads to a file that exists, and to one of its
// headings. Each picture exists.
func TestLinks(t *testing.T) {
	root := Root(t)
	for _, name := range documents(t, root) {
		links := link.FindAllStringSubmatch(prose(t, filepath.Join(root, name)), -1)
		for _, l := range links {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(l[1], "#")
			target := filepath.Join(root, filepath.Dir(name), path)
			if path == "" {
				target = filepath.Join(root, name)
			}
			if !assert.FileExists(t, target, "%s links to %s", name, l[1]) || anchor == "" {
				continue
			}
			assert.Contains(t, anchors(prose(t, target)), anchor, "%s links to %s", name, l[1])
		}
	}
}

// prose is a document without its blocks of code.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return codeBlock.ReplaceAllString(string(text), "")
}

// anchors are the headings of a document in the form in which GitHub, GitLab and
// Forgejo link to them.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		slug := notInSlugs.ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}
