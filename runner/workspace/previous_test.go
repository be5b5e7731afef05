package workspace

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// followed is a checkout in a new tree, after another one of the same slot.
func followed(t *testing.T, s Checkout) Checkout {
	t.Helper()
	previous, err := os.Open(s.Tree)
	require.NoError(t, err)
	t.Cleanup(func() { _ = previous.Close() })
	s.Previous, s.Tree = previous, t.TempDir()
	return s
}

// No file of the next session is one of the session before, and none has other bytes than the commit.
func TestPreviousTree(t *testing.T) {
	o := newOrigin(t)
	head := o.commit(map[string]string{"a": "one", "b": "two", "run": "#!/bin/sh\n", "d/e/c": "three", "f": "four", "g": "five", "l": "-> a"})
	outside := filepath.Join(t.TempDir(), "theirs")
	put(t, outside, "one")
	first := slot(t, Source{o.mirror(), o.url(), head})
	first.must(t)
	put(t, filepath.Join(first.Tree, "b"), "bad")
	link(t, filepath.Join(first.Tree, "a"), outside)
	replace(t, filepath.Join(first.Tree, "g"), "a longer text")
	require.NoError(t, os.Remove(filepath.Join(first.Tree, "f")))
	pipe(t, filepath.Join(first.Tree, "f"))
	put(t, filepath.Join(first.Tree, "new"), "1")

	next := followed(t, first)
	report, err := next.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Report{Kept: 2, Written: 5}, report)
	next.sameAsClone(t)
	for _, name := range []string{".", "run", "d", "d/e", "d/e/c"} {
		before, err := os.Lstat(filepath.Join(first.Tree, name))
		require.NoError(t, err)
		after, err := os.Lstat(filepath.Join(next.Tree, name))
		require.NoError(t, err)
		assert.NotEqual(t, before.Sys().(*syscall.Stat_t).Ino, after.Sys().(*syscall.Stat_t).Ino, name)
		assert.Equal(t, before.Mode(), after.Mode(), name)
	}

	again := followed(t, next)
	report, err = again.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Report{Kept: 6, Written: 1}, report, "links are made anew")
}
