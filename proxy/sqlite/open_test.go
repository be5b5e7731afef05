package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/sqlite"
)

const first, second = "CREATE TABLE a (x TEXT)", "ALTER TABLE a ADD COLUMN y TEXT"

func TestOpenGrowsTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c.db")
	old, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	_, err = old.Exec("INSERT INTO a VALUES ('kept')")
	require.NoError(t, err)

	// A reload: the next process opens the file while the last one still has it.
	next, err := sqlite.Open(t.Context(), path, first, second)
	require.NoError(t, err)
	var x string
	require.NoError(t, next.QueryRow("SELECT x FROM a WHERE y IS NULL").Scan(&x))
	assert.Equal(t, "kept", x)
	require.NoError(t, next.Close())
	require.NoError(t, old.Close())

	_, err = sqlite.Open(t.Context(), path, first)
	assert.ErrorContains(t, err, "newer codex-proxy")
}

func TestOpenKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("INSERT INTO a VALUES ('x')")
	require.NoError(t, err)
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Greater(t, len(files), 1, "the journal is there too")
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f)
	}
}

func TestOpenSaysWhy(t *testing.T) {
	_, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "none", "a.db"), first)
	assert.ErrorContains(t, err, "cannot open the database")
	path := filepath.Join(t.TempDir(), "a.db")
	require.NoError(t, os.WriteFile(path, []byte("this is no database, and it is long enough to tell, is it not?\n"), 0o600))
	_, err = sqlite.Open(t.Context(), path, first)
	assert.ErrorContains(t, err, "cannot use "+path)
}
