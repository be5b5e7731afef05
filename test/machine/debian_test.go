package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// fakeMmdebstrap puts a script of that name first in PATH. It counts its runs
// in the returned file, and can fail after half its work.
func fakeMmdebstrap(t *testing.T) (runs string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	dir := t.TempDir()
	runs = filepath.Join(dir, "runs")
	script := "#!/bin/sh\necho run >>" + runs + "\nfor root; do :; done\n" +
		"mkdir \"$root\" && touch \"$root/half\" && [ -z \"$FAIL\" ] && touch \"$root/whole\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return runs
}

func TestRootIsMadeOnce(t *testing.T) {
	runs := fakeMmdebstrap(t)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			dir, err := debian{suite: "any"}.cached(t.Context())
			assert.FileExists(t, filepath.Join(dir, "whole"))
			return err
		})
	}
	require.NoError(t, group.Wait())
	data, err := os.ReadFile(runs)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(data), "run"))
}

func TestHalfMadeRootIsNotUsed(t *testing.T) {
	fakeMmdebstrap(t)
	t.Setenv("FAIL", "1")
	dir, err := debian{suite: "any"}.cached(t.Context())
	require.ErrorContains(t, err, "mmdebstrap: exit status 1")
	assert.NoDirExists(t, dir)
	_, err = Debian("any").layout(t.Context())
	require.ErrorIs(t, err, ErrUnable)

	t.Setenv("FAIL", "")
	dir, err = debian{suite: "any"}.cached(t.Context())
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "whole"))
}
