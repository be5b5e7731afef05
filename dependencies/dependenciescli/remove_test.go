package dependenciescli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

// settings writes a file below /etc/codex-proxy.
func (b *bed) settings(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.Etc, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// state makes the state of a dependency with a user of its own.
func (b *bed) state(t *testing.T, name string) (link, private string) {
	t.Helper()
	link, private = filepath.Join(b.States, name), filepath.Join(b.PrivateStates, name)
	require.NoError(t, os.MkdirAll(private, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(private, "data"), nil, 0o600))
	require.NoError(t, os.MkdirAll(b.States, 0o755))
	require.NoError(t, os.Symlink(private, link))
	return link, private
}

func TestRemove(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", simple)
	link, private := b.state(t, "a")
	unit := b.systemd.Unit(units.Dependency("a"))
	unit.Start("")
	dropIns := filepath.Join(b.Units, "codex-dependency@a.service.d")
	require.NoError(t, os.MkdirAll(dropIns, 0o755))
	require.NoError(t, b.Remove(t.Context(), "a"))
	assert.NoFileExists(t, b.of("a").file)
	assert.FileExists(t, filepath.Join(private, "data"))
	for call, times := range map[string]int{"StopUnit": 1, "DisableUnitFiles": 1, "ResetFailedUnit": 1, "Reload": 1} {
		assert.Equal(t, times, b.systemd.Calls(call), call)
	}
	assert.Equal(t, []string{"The dependency a is removed.", "Its state stays: " + link + " (--purge removes it)",
		"The drop-ins of systemctl edit stay: " + dropIns + " (--purge removes them)"}, lines(b.stderr.String()))

	assert.EqualError(t, b.Remove(t.Context(), "a"), `there is no dependency "a"; codex-proxy dependencies list shows `+
		"what there is")
	b.Purge = true
	b.stderr.Reset()
	require.NoError(t, b.Remove(t.Context(), "a"), "what an earlier removal has left")
	assert.NoDirExists(t, dropIns)
	assert.NoDirExists(t, private)
	_, err := os.Lstat(link)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, "The dependency a is removed.\n", b.stderr.String())
}

func TestRemoveOfWhatIsRequired(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", simple)
	b.settings(t, "config.toml", "requires = [\"a\"]\n")
	b.settings(t, "workers/w.toml", "requires = [\"a\"]\n")
	assert.EqualError(t, b.Remove(t.Context(), "a"), "codex-proxy.service, codex-worker@w.service require a: take it "+
		"out of `requires` in "+b.Etc+"/config.toml, "+b.Etc+"/workers/w.toml, then systemctl daemon-reload")
	assert.FileExists(t, b.of("a").file)
	assert.Zero(t, b.systemd.Calls("StopUnit"))
	b.settings(t, "workers/w.toml", "requires = 1\n")
	assert.ErrorContains(t, b.Remove(t.Context(), "a"), "it is not known what requires a: ")
	assert.FileExists(t, b.of("a").file)
}
