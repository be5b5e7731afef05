package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeysCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "api-keys")
	keys := func(words ...string) result {
		return try(t, append(append([]string{"keys"}, words...), "--file", file)...)
	}

	assert.Equal(t, result{}, keys("list"), "no file is no key")
	added := keys("add", "alice")
	require.Zero(t, added.status, added.stderr)
	alice := strings.TrimSpace(added.stdout)
	assert.Regexp(t, `^sk-codex-[A-Za-z0-9_-]{43}$`, alice)
	bob := strings.TrimSpace(keys("add", "bob").stdout)
	assert.NotEqual(t, alice, bob)
	assert.Equal(t, result{stdout: "alice\nbob\n"}, keys("list"))

	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Equal(t, []string{"alice", "bob"}, accepted(t, file, alice, bob))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `^alice [0-9a-f]{64}\nbob [0-9a-f]{64}\n$`, string(text), "hashes only")

	again := keys("add", "alice")
	assert.Equal(t, exitFailure, again.status)
	assert.Contains(t, again.stderr, `there is a key "alice" already`)
	assert.Empty(t, again.stdout)

	assert.Equal(t, result{}, keys("revoke", "alice"))
	assert.Equal(t, []string{"", "bob"}, accepted(t, file, alice, bob))
	unknown := keys("revoke", "alice")
	assert.Equal(t, exitFailure, unknown.status)
	assert.Contains(t, unknown.stderr, `there is no key "alice"`)

	for _, words := range [][]string{{}, {"add"}, {"list", "more"}, {"remove", "bob"}, {"add", "a", "b"}} {
		assert.Equal(t, exitUsage, keys(words...).status, words)
	}
	assert.Equal(t, exitFailure, keys("add", "no spaces").status)

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary files stay behind")
}

// accepted are the names under which the file accepts the keys.
func accepted(t *testing.T, file string, secrets ...string) []string {
	t.Helper()
	_, keys, err := readKeyFile(file)
	require.NoError(t, err)
	var names []string
	for _, secret := range secrets {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		name, _ := keys.Check(r)
		names = append(names, name)
	}
	return names
}

func TestKeysKeepCommentsAndOtherLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	hash := strings.Repeat("ab", 32)
	require.NoError(t, os.WriteFile(file, []byte("# alice: do not touch\nalice "+hash+" # ours\nbob "+hash), 0o644))
	require.Zero(t, try(t, "keys", "--file", file, "add", "carol").status)
	require.Zero(t, try(t, "keys", "revoke", "alice", "--file", file).status)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `^# alice: do not touch\nbob `+hash+`\ncarol [0-9a-f]{64}\n$`, string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "whatever it was before")
}

// A reader, such as systemd loading the credential, holds whole files: the old
// one or the new one.
func TestKeyFileIsReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	require.Zero(t, try(t, "keys", "add", "alice", "--file", file).status)
	reader, err := os.Open(file)
	require.NoError(t, err)
	defer reader.Close()
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Zero(t, try(t, "keys", "add", "bob", "--file", file).status)
	held := make([]byte, 4096)
	n, err := reader.Read(held)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(held[:n]))
}

func TestKeyFileThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	require.NoError(t, os.WriteFile(file, []byte("alice sk-codex-oops\n"), 0o600))
	got := try(t, "keys", "add", "bob", "--file", file)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, file+": line 1:")
	assert.NotContains(t, got.stderr, "oops", "it may be a key")
	assert.Equal(t, exitFailure, try(t, "keys", "add", "bob", "--file", filepath.Join(file, "below")).status)
}
