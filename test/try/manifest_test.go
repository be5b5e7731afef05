package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// TestFilesOfThePackage compares the entries with the built .debs: names, modes
// and owners are the same, but for what packaging/manual generates.
func TestFilesOfThePackage(t *testing.T) {
	t.Parallel()
	var list string
	for _, name := range []string{"CODEX_PROXY_TEST_DEB", "CODEX_PROXY_TEST_RUNNER_DEB"} {
		deb := os.Getenv(name)
		if deb == "" {
			t.Skip(name + " is not set; `make test` sets it")
		}
		out, err := exec.Command("dpkg-deb", "--contents", deb).Output()
		require.NoError(t, err)
		list += string(out)
	}
	entries, err := files("../..", "programs")
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		mode := "-" + e.Mode.String()[1:]
		if e.Source == "" {
			mode = "d" + e.Mode.String()[1:]
		}
		got = append(got, fmt.Sprintf("%s root/root %s", mode, e.Path))
	}
	slices.Sort(got)
	assert.Equal(t, packed(list), got)
}

// packed returns the entries of dpkg-deb's list, without generated files, the sender of traces, and
// without the directories that it makes for others.
func packed(list string) []string {
	generated := []string{"/usr/share/man/", "completion", "changelog", "licenses.gz", "_codex-proxy", "_codex-runner"}
	var all []string
	for line := range strings.Lines(list) {
		field := strings.Fields(line)
		path := strings.TrimSuffix(strings.TrimPrefix(field[5], "."), "/")
		path = strings.ReplaceAll(path, `\\`, `\`) // as tar(1) quotes it
		implied := field[0][0] == 'd' && !strings.HasPrefix(path, "/etc/codex")
		if path == "/usr/lib/codex-proxy/codex-proxy-traces" { // see sender
			continue
		}
		if !implied && !slices.ContainsFunc(generated, func(g string) bool { return strings.Contains(path, g) }) {
			all = append(all, fmt.Sprintf("%s %s %s", field[0], field[1], path))
		}
	}
	slices.Sort(all)
	return all
}

func TestManifest(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	writeTree(t, tree, "docs/a.md", "")
	writeTree(t, tree, "docs/b.md", "")
	read := func(contents string) ([]machine.Entry, error) {
		m := manifests[0]
		writeTree(t, tree, m.parts[0], "name: ${ANY}\ncontents:\n"+contents)
		writeTree(t, tree, m.parts[1], "scripts: {postinstall: any}\n")
		return m.files(tree, "/built")
	}
	got, err := read(`
  - {src: "${BIN}", expand: true, dst: /usr/bin/p, file_info: {mode: 0755}}
  - {src: "${BIN}-unit", expand: true, dst: /usr/lib/q, file_info: {mode: 0755}}
  - {src: docs/*.md, dst: /usr/share/doc/p/, packager: deb, file_info: {mode: 0644}}
  - {src: none, dst: /any, packager: rpm}
  - {src: build/share/man/*.1.gz, dst: /usr/share/man/man1/}
  - {dst: /etc/p, type: dir, file_info: {mode: 0750}}
  - {src: p, dst: /usr/bin/q, type: symlink}
`)
	require.NoError(t, err)
	assert.Equal(t, []machine.Entry{
		{Path: "/usr/bin/p", Source: "/built", Mode: 0o755},
		{Path: "/usr/lib/q", Source: "/built-unit", Mode: 0o755},
		{Path: "/usr/share/doc/p/a.md", Source: filepath.Join(tree, "docs/a.md"), Mode: 0o644},
		{Path: "/usr/share/doc/p/b.md", Source: filepath.Join(tree, "docs/b.md"), Mode: 0o644},
		{Path: "/etc/p", Mode: 0o750},
		{Path: "/usr/bin/q", Link: "p"},
	}, got)

	for contents, problem := range map[string]string{
		`[{src: none, dst: /any, file_info: {mode: 0644}}]`:           "cannot install /any: there is no " + tree,
		`[{src: docs/a.md, dst: /any}]`:                               "it has no mode",
		`[{src: docs/a.md, dst: /any, type: ghost}]`:                  `type "ghost" is unknown`,
		`[{src: docs/a.md, dst: /any, file_info: {owner: somebody}}]`: "field owner not found",
	} {
		_, err := read("  " + contents + "\n")
		assert.ErrorContains(t, err, problem, contents)
	}
}
