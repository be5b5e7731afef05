package canaryunit

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/canary"
	"codex-proxy/codex/copies"
)

// taken is the name of the copy of a codex in the store.
func taken(t *testing.T, store *copies.Store, version string) string {
	t.Helper()
	root := t.TempDir()
	program := filepath.Join(root, "bin/codex")
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755)) //nolint:gosec // all users read programs
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "codex-package.json"), []byte(`{"version":"`+version+`"}`), 0o644)) //nolint:gosec // a package
	require.NoError(t, os.WriteFile(program, []byte(version), 0o755))                                                       //nolint:gosec // a program
	c, err := store.Take(t.Context(), program)
	require.NoError(t, err)
	return c.Name
}

// The verdict of the trial, and how the unit has ended, decide about the copy.
func TestEnd(t *testing.T) {
	const passed, failed = `{"passed":true}`, `{"passed":false,"reason":"it fails at a plain turn:\n no table"}`
	for name, tc := range map[string]struct {
		verdict, result string
		inUse           bool
		held            string
	}{
		"passed":                       {verdict: passed, result: "success", inUse: true},
		"failed":                       {verdict: failed, result: "exit-code", held: "it fails at a plain turn: no table"},
		"stopped by the operator":      {result: "success"},
		"too slow":                     {result: "timeout", held: "its trial ended without a verdict: timeout"},
		"killed after its verdict":     {verdict: passed, result: "signal", held: "its trial ended without a verdict: signal"},
		"a pipe in place of a verdict": {verdict: "pipe", result: "exit-code", held: "its trial ended without a verdict: exit-code"},
		"no JSON":                      {verdict: "{", result: "exit-code", held: "its trial ended without a verdict: exit-code"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("RUNTIME_DIRECTORY", dir)
			t.Setenv("SERVICE_RESULT", tc.result)
			switch file := filepath.Join(dir, verdictFile); tc.verdict {
			case "":
			case "pipe":
				require.NoError(t, syscall.Mkfifo(file, 0o600))
			default:
				require.NoError(t, os.WriteFile(file, []byte(tc.verdict), 0o600))
			}
			store := copies.At(filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "runs"))
			old, next := taken(t, store, "0.171.0"), taken(t, store, "0.172.0")
			require.NoError(t, store.Use(t.Context(), old))
			require.NoError(t, End(t.Context(), store, next, io.Discard))
			state, err := store.State()
			require.NoError(t, err)
			assert.Equal(t, tc.inUse, state.InUse == next)
			held, _ := state.HeldBack(next)
			assert.Equal(t, tc.held, held.Reason)
			_, err = store.Get(next)
			assert.Equal(t, tc.held == "", err == nil, "what has failed goes")
		})
	}
}

// A codex that has ended because the unit is stopped has not failed.
func TestAStoppedTrialHasNoVerdict(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	failed := &canary.Failure{Step: "a plain turn", Reason: "it has ended with signal terminated"}
	require.ErrorIs(t, leave(ctx, dir, "0.171.0", failed), failed)
	require.FileExists(t, filepath.Join(dir, verdictFile))
	require.NoError(t, os.Remove(filepath.Join(dir, verdictFile)))
	stop()
	require.NoError(t, leave(ctx, dir, "0.171.0", failed))
	assert.NoFileExists(t, filepath.Join(dir, verdictFile))
}

// A bare program has the version that it has said in its trial.
func TestABareProgramGetsItsVersion(t *testing.T) {
	for text, inUse := range map[string]bool{
		`{"passed":true,"version":"0.172.0"}`:               true,
		`{"passed":false,"reason":"x","version":"0.172.0"}`: false,
		`{"passed":true,"version":"../../0.172.0"}`:         true,
	} {
		dir := t.TempDir()
		t.Setenv("RUNTIME_DIRECTORY", dir)
		t.Setenv("SERVICE_RESULT", "success")
		require.NoError(t, os.WriteFile(filepath.Join(dir, verdictFile), []byte(text), 0o600))
		store := copies.At(filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "runs"))
		require.NoError(t, store.Use(t.Context(), taken(t, store, "0.171.0")))
		program := filepath.Join(t.TempDir(), "codex")
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(program)), 0o755)) //nolint:gosec // all users read programs
		require.NoError(t, os.WriteFile(program, []byte("bare"), 0o755))         //nolint:gosec // a program
		bare, err := store.Take(t.Context(), program)
		require.NoError(t, err)
		require.NoError(t, store.Assign(t.Context(), "codex-canary@"+bare.Name+".service", bare.Name))
		require.Equal(t, "unknown", bare.Version)
		require.NoError(t, End(t.Context(), store, bare.Name, io.Discard))
		version := "0.172.0"
		if strings.Contains(text, "..") {
			version = "unknown"
		}
		c := store.Installed(program)
		assert.Equal(t, version, c.Version)
		state, err := store.State()
		require.NoError(t, err)
		assert.Equal(t, inUse, state.InUse == c.Copy)
		assert.Equal(t, !inUse, c.Held != nil)
		assert.True(t, copies.Was(c.Copy, bare.Name))

		require.NoError(t, os.Remove(program))                           // the same bytes are installed anew
		require.NoError(t, os.WriteFile(program, []byte("bare"), 0o755)) //nolint:gosec // a program
		again, err := store.Take(t.Context(), program)
		require.NoError(t, err)
		assert.Equal(t, c.Copy, again.Name, "it is not tried again")
	}
}

// A copy that was held by the name that it had without a version is in use once it has passed.
func TestTheFateOfARenamedCopy(t *testing.T) {
	const bare, named = "unknown-0123456789ab", "0.172.0-0123456789ab"
	state := copies.State{InUse: named, Held: []copies.Held{{Copy: bare, Reason: "timeout"}}}
	_, held, inUse := state.FateOf(bare)
	assert.False(t, held)
	assert.True(t, inUse)
	state.InUse = "0.171.0-0123456789ab"[:8] + "ba9876543210"
	_, held, inUse = state.FateOf(bare)
	assert.True(t, held)
	assert.False(t, inUse)
}
