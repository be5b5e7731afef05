package packages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gone are the names of the release before that this version gives up, each with its line in CHANGELOG.md.
var gone []string

// What users of the release before know, this version has: the files with their modes, the commands, the
// settings and the metrics.
func TestKept(t *testing.T) {
	t.Parallel()
	tools(t, "dpkg-deb", "zcat")
	dir := os.Getenv("CODEX_PROXY_TEST_RELEASED")
	if dir == "" {
		unable(t, "CODEX_PROXY_TEST_RELEASED is not set; `make test` sets it")
	}
	released, err := filepath.Glob(filepath.Join(dir, "codex-proxy_*.deb"))
	require.NoError(t, err)
	require.Len(t, released, 1)
	before, now := namesOf(t, released[0]), namesOf(t, built(t)[0].deb)
	for kind, all := range before {
		assert.Greater(t, len(all), 15, "%s: the test reads too few of them", kind)
		assert.Empty(t, without(without(all, now[kind]), gone), "%s that the release has and this version has not", kind)
	}
}

var (
	// A synopsis begins a line of the page, in bold letters (man(7)).
	synopsis   = regexp.MustCompile(`(?m)^(?:\.B "|\\fB)(codex-proxy(?: [a-z][a-z-]*)+)`)
	setting    = regexp.MustCompile(`(?m)^#?([a-z_]+) = `)
	metricName = regexp.MustCompile(`\b(codex_[a-z_]+)`)
)

// namesOf reads the names that users know from the files of a .deb of codex-proxy.
func namesOf(t *testing.T, deb string) map[string][]string {
	t.Helper()
	tree := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb, tree)
	manual := strings.ReplaceAll(output(t, "zcat", filepath.Join(tree, "usr/share/man/man1/codex-proxy.1.gz")), `\-`, "-")
	return map[string][]string{
		"files":    modes(t, tree),
		"commands": names(synopsis, manual),
		"settings": names(setting, read(t, filepath.Join(tree, "etc/codex-proxy/config.toml"))),
		"metrics":  names(metricName, read(t, filepath.Join(tree, "usr/share/doc/codex-proxy/metrics.md"))),
	}
}

// names are what the pattern's group matches, each once.
func names(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return sorted(all)
}

// modes are the files below tree, each with its mode. All belong to root, as nfpm writes them.
func modes(t *testing.T, tree string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all = append(all, info.Mode().String()+" "+strings.TrimPrefix(path, tree))
		return err
	}))
	return sorted(all)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
