package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
)

func TestSweep(t *testing.T) {
	const key = "0123456789abcdef"
	whole := strings.Repeat(key, 4)
	b := newBed(t)
	top := t.TempDir()
	b.PrivateStates, b.StateLinks = top+"/private", top
	outside := filepath.Join(top, "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	for state, instance := range map[string]string{
		"codex-session/" + id: "session-" + id, "codex-repository/" + key: "repository-" + key,
		"codex-environment/" + key: "environment-" + key,
	} {
		dir, link := filepath.Join(b.PrivateStates, state), filepath.Join(b.StateLinks, state)
		require.NoError(t, os.MkdirAll(dir+"/a/b", 0o700))
		require.NoError(t, os.Symlink(outside, dir+"/link"))
		require.NoError(t, os.WriteFile(dir+"/.ready", nil, 0o600))
		require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o700))
		require.NoError(t, os.Symlink("../private/"+state, link))
		require.NoError(t, b.Sweep(instance))
		assert.NoDirExists(t, dir)
		_, err := os.Lstat(link)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, b.Sweep(instance), "once more")
	}
	assert.FileExists(t, outside)
	for _, owner := range []string{"1000", paths.Shared} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.environments(), owner, whole, "venv"), 0o700))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(b.environments(), "1000", "another"), 0o700))
	left := filepath.Join(b.PrivateStates, buildState, paths.EnvironmentInstance(whole))
	require.NoError(t, os.MkdirAll(left+"/x", 0o700))
	require.NoError(t, b.Sweep("environment-"+whole))
	assert.NoDirExists(t, left, "of a build whose end was killed")
	kept, err := filepath.Glob(b.environments() + "/*/*")
	require.NoError(t, err)
	assert.Equal(t, []string{b.environments() + "/1000/another"}, kept)
}

// What a session that runs has stays.
func TestSweepOfASession(t *testing.T) {
	b := newBed(t)
	b.PrivateStates, b.StateLinks = t.TempDir(), t.TempDir()
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	slot := filepath.Join(b.Workspaces, "3")
	for _, instance := range []string{"session-" + id, "slot-3"} {
		assert.ErrorContains(t, b.Sweep(instance), "session "+id+" runs: wait for its end")
	}
	assert.DirExists(t, filepath.Join(slot, paths.Tree))
	require.NoError(t, b.End(id, systemd("success")))
	require.NoError(t, os.WriteFile(b.LogFields+paths.OnlineUnit(id), nil, 0o600))
	require.NoError(t, b.Sweep("session-"+id))
	assert.NoFileExists(t, b.LogFields+paths.OnlineUnit(id))
	require.NoError(t, os.Truncate(filepath.Join(slot, paths.Tenant), 0), "after a crash of the host")
	require.NoError(t, b.Sweep("slot-3"))
	assert.NoDirExists(t, slot)
	require.NoError(t, b.Sweep("slot-3"))
}

func TestSweepOfNothing(t *testing.T) {
	b := newBed(t)
	for instance, want := range map[string]string{
		"": "cannot sweep", "slot": "is no slot", "slot-0": "is no slot", "slot-1/..": "is no slot", "slot-01": "is no slot",
		"session-../..": "is no session", "environment-..": "is no key", "repository-": "is no key", "disk-1": "cannot sweep",
	} {
		assert.ErrorContains(t, b.Sweep(instance), want, instance)
	}
}
