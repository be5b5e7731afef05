package packages

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Both formats of a package hold the same files, except those of one format alone.
func TestFiles(t *testing.T) {
	t.Parallel()
	tools(t, "dpkg-deb", "rpm", "tar")
	var all []string
	for _, p := range built(t) {
		inDeb, inRPM := p.inDeb(t), p.inRPM(t)
		name := p.name
		for _, file := range without(inDeb, inRPM) {
			assert.Regexp(t, `^(/etc/codex-proxy/workers/default.toml$|/usr/share/(doc|lintian|zsh/vendor-completions)/)`,
				file, "only in the .deb")
		}
		for _, file := range without(inRPM, inDeb) {
			assert.Regexp(t,
				`^(/etc/codex$|/etc/`+name+`(/workers|/dependencies|/remotes)?$|/usr/lib/`+name+`$|`+
					`/usr/share/`+name+`(/default.toml|/dependencies)?$|`+
					`/usr/share/(doc|licenses|zsh/site-functions)/|/usr/lib/systemd/system-preset/|`+
					`/usr/lib/systemd/system/[^/]*[.]mount[.]d$|/usr/share/cockpit(/codex-proxy)?$)`,
				file, "only in the .rpm")
		}
		for _, document := range documents(t, p.documents) {
			assert.Contains(t, inDeb, "/usr/share/doc/"+name+"/"+document)
			assert.Contains(t, inRPM, "/usr/share/doc/"+name+"/"+document)
		}
		assert.Equal(t, p.settings+p.settingsOfDeb, output(t, "dpkg-deb", "--info", p.deb, "conffiles"))
		assert.Equal(t, p.settings, output(t, "rpm", "--query", "--package", "--configfiles", p.rpm))
		all = append(all, append(inDeb, without(inRPM, inDeb)...)...)
	}
	slices.Sort(all)
	assert.Equal(t, slices.Compact(slices.Clone(all)), all, "the packages have no file in common")
	for _, file := range shipped(t) {
		if strings.HasSuffix(file, ".mount.conf") { // of the mounts whose names begin as that of its directory
			file = ".mount.d/codex-runner.conf"
		}
		assert.True(t, slices.ContainsFunc(all, func(f string) bool {
			return strings.HasSuffix(f, "/"+file) || strings.HasPrefix(file, ".") && strings.HasSuffix(f, file)
		}),
			"%s is not in the packages", file)
	}
}

func (p pair) inDeb(t *testing.T) []string {
	t.Helper()
	return strings.Fields(output(t, "sh", "-c",
		"dpkg-deb --fsys-tarfile "+p.deb+" | tar --list --quoting-style=literal | grep -v '/$' | sed 's/^[.]//'"))
}

func (p pair) inRPM(t *testing.T) []string {
	t.Helper()
	return strings.Fields(output(t, "rpm", "--query", "--package", "--list", p.rpm))
}

// shipped are the files of packaging that are installed unchanged.
func shipped(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"systemd", "sysusers", "tmpfiles", "polkit", "journal", "etc", "dependencies"} {
		err := fs.WalkDir(os.DirFS("../../packaging"), dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) != ".go" {
				names = append(names, filepath.Base(path))
			}
			return err
		})
		require.NoError(t, err)
	}
	require.NotEmpty(t, names)
	return names
}

// documents are the files of docs that match, by their paths below it.
func documents(t *testing.T, patterns []string) (names []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := fs.Glob(os.DirFS("../../docs"), pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		names = append(names, found...)
	}
	return names
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(file string) bool { return slices.Contains(some, file) })
}
