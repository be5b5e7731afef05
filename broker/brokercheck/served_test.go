package brokercheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/sharing"
)

// shared is a machine with processes = 1, on which the named workers run, and a is made to serve b.
func shared(t *testing.T, running ...string) *survey.Facts {
	t.Helper()
	f := &survey.Facts{Machine: survey.Machine{Root: t.TempDir()}, Units: map[string]units.Description{}}
	for path, text := range map[string]string{
		paths.Config:                     "[accounts]\nprocesses = 1\n",
		paths.WorkerSettings + "/a.toml": "mode = \"plain\"\nnetwork = \"model\"\n",
		paths.WorkerSettings + "/b.toml": "mode = \"plain\"\nnetwork = \"model\"\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(f.Path(path)), 0o755))
		require.NoError(t, os.WriteFile(f.Path(path), []byte(text), 0o644))
	}
	require.NoError(t, os.MkdirAll(f.Path(survey.Generated), 0o755))
	_, err := sharing.Mark(f.Path(survey.Generated), "b", "a")
	require.NoError(t, err)
	for _, name := range running {
		require.NoError(t, os.MkdirAll(f.Path(paths.WorkerRuntimeDirs, name), 0o755))
		unit := units.Worker(name)
		f.Units[unit] = units.Description{State: units.State{Unit: unit, LoadState: "loaded", ActiveState: "active"}}
	}
	return f
}

func sharingOf(f *survey.Facts) []checkup.Finding {
	r := &room{Facts: f, made: sharing.Generated(f.Path(survey.Generated), []string{"a", "b"})}
	r.wanted, r.fault = sharing.Configured(f.Path(paths.Config), f.Path(paths.WorkerSettings), r.runs)
	return r.sharing()
}

// No remedy stops the only codex of an account.
func TestSharing(t *testing.T) {
	assert.Empty(t, sharingOf(shared(t, "a")))
	both := sharingOf(shared(t, "a", "b"))
	require.Len(t, both, 1)
	assert.Equal(t, "systemctl stop codex-worker@b.service", both[0].Remedy)
	served := sharingOf(shared(t, "b"))
	require.Len(t, served, 1)
	assert.True(t, strings.HasPrefix(served[0].Remedy, "systemctl daemon-reload; "), served[0].Remedy)

	stopped := shared(t)
	require.NoError(t, os.RemoveAll(stopped.Path(survey.Generated)))
	_, err := sharing.Mark(stopped.Path(survey.Generated), "a", "b")
	require.NoError(t, err)
	assert.Empty(t, sharingOf(stopped), "b serves again at its start")

	nothing := shared(t, "a")
	require.NoError(t, os.Remove(nothing.Path(paths.WorkerSettings, "b.toml")))
	require.NoError(t, os.RemoveAll(nothing.Path(survey.Generated)))
	found := sharingOf(nothing)
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Detail, "no accounts share a codex")
}
