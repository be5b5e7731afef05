package accounts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "codex-proxy/workers/accounts"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	_, err := ReadFile(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	want := Saved{InUse: "a", Accounts: map[string]SavedAccount{"a": {Paused: true, Quota: Quota{Plan: "pro"}}}}
	for range 2 { // the second one replaces the first
		require.NoError(t, WriteFile(path, want))
		got, err := ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "no temporary file stays")
	for _, text := range []string{"", "{", "[1]", `{"accounts":{"a":{"quota":{"at":"noon"}}}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = ReadFile(path)
		assert.ErrorContains(t, err, "is not a file of accounts", text)
	}
	assert.Error(t, WriteFile(filepath.Join(dir, "none", FileName), want))
}
