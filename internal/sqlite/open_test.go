package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
)

const first, second = "CREATE TABLE a (x TEXT)", "ALTER TABLE a ADD COLUMN y TEXT"

func TestOpenGrowsTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c.db")
	old, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	_, err = old.Exec("INSERT INTO a VALUES ('kept')")
	require.NoError(t, err)

	// A reload: the next process opens the file while the last one still has it open.
	next, err := sqlite.Open(t.Context(), path, first, second)
	require.NoError(t, err)
	var x string
	require.NoError(t, next.QueryRow("SELECT x FROM a WHERE y IS NULL").Scan(&x))
	assert.Equal(t, "kept", x)
	require.NoError(t, next.Close())
	require.NoError(t, old.Close())

	_, err = sqlite.Open(t.Context(), path, first)
	assert.ErrorContains(t, err, "newer version")
	assert.ErrorIs(t, err, sqlite.ErrNewer)
	assert.ErrorContains(t, sqlite.Check(t.Context(), path, 1), "newer version")
	before, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.NoError(t, sqlite.Check(t.Context(), path, 2))
	after, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, after, len(before), "nothing is written")
}

// A reload opens a file while another process writes to it, or while the disk is full.
func TestOpenNeitherWritesNorWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	defer db.Close()
	before, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	next, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	require.NoError(t, next.Close())
	after, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	assert.Equal(t, before.Size(), after.Size(), "nothing is written")

	writing, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer writing.Rollback() //nolint:errcheck // nothing was written
	next, err = sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	require.NoError(t, next.Close())
	_, err = sqlite.Open(t.Context(), path)
	assert.ErrorContains(t, err, "newer version")
}

func TestOpenIsForTheServiceAlone(t *testing.T) {
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

func TestOpenErrors(t *testing.T) {
	_, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "none", "a.db"), first)
	assert.ErrorContains(t, err, "cannot open the database")
	path := filepath.Join(t.TempDir(), "a.db")
	const text = "this is no database, and it is long enough for SQLite to see that\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err = sqlite.Open(t.Context(), path, first)
	assert.ErrorContains(t, err, "cannot use "+path)
	assert.ErrorContains(t, sqlite.Check(t.Context(), path, 1), "file is not a database")
	assert.ErrorIs(t, sqlite.Check(t.Context(), path+".none", 1), os.ErrNotExist)
}

func TestReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c.db")
	db, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	defer db.Close()
	reads, err := sqlite.Readers(path)
	require.NoError(t, err)
	defer reads.Close()
	assert.Zero(t, reads.Stats().OpenConnections, "none before the first read")
	for range 3 {
		_, err = db.Exec("INSERT INTO a VALUES ('x')")
		require.NoError(t, err)
		var written, read int
		require.NoError(t, db.QueryRow("SELECT count(*) FROM a").Scan(&written))
		require.NoError(t, reads.QueryRow("SELECT count(*) FROM a").Scan(&read))
		assert.Equal(t, written, read)
	}
	_, err = reads.Exec("DELETE FROM a")
	assert.ErrorContains(t, err, "readonly")
}

// The error for an unreadable file has the reason and the remedy.
func TestOpenReadOnlyErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := sqlite.OpenReadOnly(t.Context(), path, 2)
	assert.ErrorContains(t, err, "nothing could be written to it yet")
	db, err := sqlite.Open(t.Context(), path, first)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = sqlite.OpenReadOnly(t.Context(), path, 2)
	assert.ErrorContains(t, err, "an older version; start the service")
	db, err = sqlite.Open(t.Context(), path, first, second, "")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = sqlite.OpenReadOnly(t.Context(), path, 2)
	assert.ErrorContains(t, err, "a newer version")
}
