package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownLayers lets the process keep layers of its own, over the roots that all share.
func ownLayers(t *testing.T) (layers string) {
	t.Helper()
	shared, err := os.UserCacheDir()
	require.NoError(t, err)
	own := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(own, "codex-proxy"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(shared, "codex-proxy/roots"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(shared, "codex-proxy/roots"), filepath.Join(own, "codex-proxy/roots")))
	t.Setenv("XDG_CACHE_HOME", own)
	return filepath.Join(own, "codex-proxy/layers")
}

// The unit of the package is enabled and has not run. After that the disk of a machine has what was done with its links.
func TestInstalled(t *testing.T) {
	layers, deb := ownLayers(t), buildDeb(t)
	for _, suite := range []string{"trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			root, o := Installed(Debian(suite), deb), Options{Disk: t.TempDir(), Units: []string{"hello.service"}}
			for _, step := range []struct{ state, then string }{
				{"enabled inactive 0", "start"}, {"enabled active *", "disable"}, {"disabled inactive 0", "start"},
			} {
				m := Boot(t, root, o)
				assert.Equal(t, "install ok installed", m.MustRun(t, "dpkg-query", "-W", "-f=${Status}", "hello"))
				show := func(property string) string { return "$(systemctl show --value -p " + property + " hello.service)" }
				assert.Regexp(t, "^"+strings.ReplaceAll(step.state, "*", "[1-9][0-9]*")+"\n$", m.MustRun(t, "sh", "-c",
					"echo "+show("UnitFileState")+" "+show("ActiveState")+" "+show("ExecMainStartTimestampMonotonic")))
				m.MustRun(t, "systemctl", step.then, "hello.service")
				require.NoError(t, m.Close())
			}
		})
	}
	found, err := os.ReadDir(layers)
	require.NoError(t, err)
	assert.Len(t, found, 2)
}

// A package that cannot be installed leaves no layer.
func TestInstalledFails(t *testing.T) {
	layers, notes := ownLayers(t), filepath.Join(t.TempDir(), "notes.deb")
	require.NoError(t, os.WriteFile(notes, []byte("no package"), 0o600))
	_, err := Start(t.Context(), Installed(Debian("trixie"), notes), Options{})
	if errors.Is(err, ErrUnable) {
		t.Skip(err)
	}
	require.ErrorContains(t, err, "cannot make a root with")
	require.ErrorContains(t, err, notes)
	files, err := filepath.Glob(layers + "/*/*")
	require.NoError(t, err)
	assert.Empty(t, files)
}

// A layer that a process uses stays, and so do those of other roots and packages.
func TestRemoveOthers(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	const name, hash = "trixie-1+hello", "-0123456789a"
	dirs := map[string]bool{name + hash + "0": true, name + hash + "1": false, name + hash + "2": true,
		name + "-world" + hash + "1": true, name + "+world" + hash + "1": true, "bookworm-1+hello" + hash + "1": true}
	for dir := range dirs {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir, "files"), 0o755))
	}
	used, err := os.Open(filepath.Join(top, name+hash+"2"))
	require.NoError(t, err)
	defer used.Close()
	require.True(t, flock(used, unix.LOCK_SH))
	require.NoError(t, removeOthers(filepath.Join(top, name+hash+"0"), name))
	for dir, stays := range dirs {
		assert.Equal(t, stays, isDir(filepath.Join(top, dir)), dir)
	}
}

// A process that has opened a layer before another has removed it does not take that for the layer.
func TestRemovedLayerIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layer")
	require.NoError(t, os.MkdirAll(layerFiles(dir), 0o755))
	removed, err := os.Open(dir)
	require.NoError(t, err)
	defer removed.Close()
	require.NoError(t, removeUnused(dir))
	held, err := installed{}.tryLock(t.Context(), removed, dir)
	require.NoError(t, err)
	assert.False(t, held)

	require.NoError(t, os.MkdirAll(layerFiles(dir), 0o755)) // as another process makes it
	held, err = installed{}.tryLock(t.Context(), removed, dir)
	require.NoError(t, err)
	assert.False(t, held)
	lock, err := installed{}.lock(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, removeUnused(dir))
	assert.True(t, isDir(dir))
	require.NoError(t, lock.Close())
}
