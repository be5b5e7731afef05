package codexhome

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
)

// tree makes files below a directory: programs are native, .js files are scripts.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, f := range files {
		path := filepath.Join(root, f)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		text := "\x7fELF native"
		if filepath.Base(path) != "codex" {
			text = "#!/usr/bin/env node\n"
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	return root
}

func vendored() string { return filepath.Join("vendor", target[1], "bin/codex") }

func TestTheNativeBinaryBehindTheStartScript(t *testing.T) {
	const script = "lib/node_modules/@openai/codex/bin/codex.js"
	for name, binary := range map[string]string{
		"nested":     filepath.Join("lib/node_modules/@openai/codex/node_modules/@openai", target[0], vendored()),
		"hoisted":    filepath.Join("lib/node_modules/@openai", target[0], vendored()),
		"in itself":  filepath.Join("lib/node_modules/@openai/codex", vendored()),
		"further up": filepath.Join("node_modules/@openai", target[0], vendored()),
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, script, binary)
			require.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
			require.NoError(t, os.Symlink("../"+script, filepath.Join(root, "bin/codex")))
			got, err := findCodex(&Worker{}, filepath.Join(root, "bin"), nil)
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(root, binary), got)

			got, err = findCodex(&Worker{}, "/nowhere", []string{filepath.Join(root, "lib/node_modules")})
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(root, binary), got)
		})
	}
}

func TestANativeBinaryIsTakenAsItIs(t *testing.T) {
	root := tree(t, "opt/codex")
	got, err := findCodex(&Worker{CodexPath: filepath.Join(root, "opt/codex")}, "", nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(root, "opt/codex"), got)
}

func TestWhyCodexIsNotFound(t *testing.T) {
	root := tree(t, "opt/start.sh", "lib/@openai/codex/bin/codex.js")
	worker := func(path string) *Worker {
		return &Worker{File: "/w.toml", CodexPath: path, lines: strict.LinesOf([]byte("\ncodex_path = \"\""))}
	}
	_, err := findCodex(&Worker{}, root, nil)
	assert.EqualError(t, err, "codex is not installed: "+installHint)
	_, err = findCodex(&Worker{}, "", []string{filepath.Join(root, "lib")})
	assert.ErrorContains(t, err, "lacks its native binary (@openai/"+target[0]+"); reinstall it")
	_, err = findCodex(worker(filepath.Join(root, "opt/start.sh")), "", nil)
	assert.ErrorContains(t, err, "it is a script: name the native binary inside the npm package")
	_, err = findCodex(worker("/home/nobody-here/codex"), "", nil)
	assert.ErrorContains(t, err, `/w.toml:2: cannot use codex_path = "/home/nobody-here/codex"`)
	assert.ErrorContains(t, err, "the unit cannot see /home and /root")
}
