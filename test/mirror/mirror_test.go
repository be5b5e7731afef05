package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file that has the same bytes stays as old as it is; all others become those of the tree.
func TestMirror(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "mirror")
	git := exec.Command("git", "init", "-q", from)
	out, err := git.CombinedOutput()
	require.NoError(t, err, string(out))
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(from, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	write(".gitignore", "/build/\n", 0o644)
	write("build/made", "made", 0o644)
	write("same", "same", 0o644)
	write("changed", "before", 0o644)
	write("mode", "mode", 0o644)
	write("gone/file", "gone", 0o644)
	write("shape", "a file", 0o644)
	require.NoError(t, mirror(from, to))
	old := time.Unix(1e9, 0)
	for _, name := range []string{"same", "changed", "mode"} {
		require.NoError(t, os.Chtimes(filepath.Join(to, name), old, old))
	}
	require.NoError(t, os.WriteFile(filepath.Join(to, "left"), nil, 0o600))

	write("same", "same", 0o644)
	write("changed", "after", 0o644)
	write("mode", "mode", 0o755)
	require.NoError(t, os.RemoveAll(filepath.Join(from, "gone")))
	require.NoError(t, os.Remove(filepath.Join(from, "shape")))
	write("shape/file", "a directory", 0o644)
	require.NoError(t, mirror(from, to))

	got := map[string]string{}
	require.NoError(t, filepath.Walk(to, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		if name, _ := filepath.Rel(to, path); !info.IsDir() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			got[name] = info.Mode().String() + " " + string(data)
		} else if name == "gone" {
			got[name] = "a directory"
		}
		return nil
	}))
	assert.Equal(t, map[string]string{
		".gitignore": "-rw-r--r-- /build/\n", "same": "-rw-r--r-- same", "changed": "-rw-r--r-- after",
		"mode": "-rwxr-xr-x mode", "shape/file": "-rw-r--r-- a directory",
	}, got)
	info, err := os.Stat(filepath.Join(to, "same"))
	require.NoError(t, err)
	assert.Equal(t, old, info.ModTime())
	info, err = os.Stat(filepath.Join(to, "changed"))
	require.NoError(t, err)
	assert.NotEqual(t, old, info.ModTime())
}
