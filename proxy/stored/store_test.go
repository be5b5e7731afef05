package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var roomy = Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 100}

func open(t *testing.T, path string, limits Limits) *File {
	t.Helper()
	s := New(Settings{
		Path: path, Limits: limits, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, s.Open(t.Context()))
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// response has an input and an output item that are named after it.
func response(id, previous string) Response {
	return Response{
		ID: id, Owner: "ann", Previous: previous, Worker: "w-" + id, Object: []byte(`{"id":"` + id + `"}`),
		Input:  []Item{{ID: "in-" + id, JSON: json.RawMessage(`"in ` + id + `"`)}},
		Output: []Item{{ID: "out-" + id, JSON: json.RawMessage(`"out ` + id + `"`)}},
	}
}

func TestStoreIsBounded(t *testing.T) {
	ctx := t.Context()
	one := int64(len(`{"id":"r0"}"in r0""out r0"`))
	for name, limits := range map[string]Limits{
		"in number": {Retention: time.Hour, Bytes: 1 << 20, Count: 3},
		"in size":   {Retention: time.Hour, Bytes: 3 * one, Count: 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "r.db"), limits)
			for i := range 5 {
				require.NoError(t, s.Put(ctx, response(fmt.Sprintf("r%d", i), "")))
			}
			for i := range 5 {
				_, err := s.Object(ctx, "ann", fmt.Sprintf("r%d", i))
				if i < 2 {
					assert.ErrorIs(t, err, ErrNotFound, "r%d", i)
				} else {
					assert.NoError(t, err, "r%d", i)
				}
			}
		})
	}
}

// The owner with the most responses loses one, and a response that is too large
// removes no other.
func TestStoreIsShared(t *testing.T) {
	ctx := t.Context()
	one := int64(len(`{"id":"a0"}"in a0""out a0"`))
	large := func(id string) Response {
		r := response(id, "")
		r.Input[0].JSON = json.RawMessage(`"` + strings.Repeat("x", int(one)) + `"`)
		return r
	}
	there := func(s *File, owner string, ids ...string) {
		t.Helper()
		var found []string
		for _, id := range []string{"a0", "a1", "a2", "a3", "b0", "b1"} {
			if _, err := s.Object(ctx, owner, id); err == nil {
				found = append(found, id)
			}
		}
		assert.Equal(t, ids, found)
	}
	for name, limits := range map[string]Limits{
		"in number": {Retention: time.Hour, Bytes: 1 << 20, Count: 3},
		"in size":   {Retention: time.Hour, Bytes: 3 * one, Count: 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "r.db"), limits)
			theirs := response("b0", "")
			theirs.Owner = "bob"
			require.NoError(t, s.Put(ctx, theirs))
			for i := range 4 {
				require.NoError(t, s.Put(ctx, response(fmt.Sprintf("a%d", i), "")))
			}
			there(s, "bob", "b0")
			there(s, "ann", "a2", "a3")
			theirs = response("b1", "")
			theirs.Owner = "bob"
			require.NoError(t, s.Put(ctx, theirs))
			there(s, "bob", "b0", "b1")
			there(s, "ann", "a3")
		})
	}
	t.Run("no room", func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "r.db"), Limits{Retention: time.Hour, Bytes: 2 * one, Count: 100})
		theirs := response("b0", "")
		theirs.Owner = "bob"
		require.NoError(t, s.Put(ctx, theirs))
		require.NoError(t, s.Put(ctx, response("a0", "")))
		assert.ErrorIs(t, s.Put(ctx, large("a1")), ErrNoRoom, "beside the responses of another owner")
		huge := large("a2")
		huge.Object = append(huge.Object, make([]byte, 2*one)...)
		assert.ErrorIs(t, s.Put(ctx, huge), ErrNoRoom, "alone")
		there(s, "bob", "b0")
		there(s, "ann", "a0")
	})
}

// After a reload the limits may be far below the stored size. Deleting all of the
// excess takes longer than Put may wait.
func TestLimitsMayBeLowered(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "r.db")
	before := open(t, path, roomy)
	for i := range 50 {
		require.NoError(t, before.Put(ctx, response(fmt.Sprintf("r%02d", i), "")))
	}
	s := open(t, path, Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 3})
	count := func() (n int) {
		require.NoError(t, s.opened.Load().reads.QueryRow("SELECT count(*) FROM responses").Scan(&n))
		return n
	}
	require.NoError(t, s.write(ctx, func(tx *sql.Tx) error {
		room, err := s.makeRoom(ctx, tx, response("r49", ""), time.Now())
		assert.False(t, room)
		return err
	}))
	assert.Equal(t, 49, count(), "it stops in time, and commits its deletions")
	require.NoError(t, s.sweep(ctx, time.Now()))
	assert.Equal(t, 3, count())
	for _, id := range []string{"r47", "r48", "r49"} {
		_, err := s.Object(ctx, "ann", id)
		assert.NoError(t, err, id)
	}
}

// A file of an older version has no owners, and the older process still writes to it.
func TestStoreCreatesMissingOwners(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sqlite.Open(ctx, path, schema)
	require.NoError(t, err)
	defer db.Close()
	put := func(id, owner string) {
		t.Helper()
		r := response(id, "")
		r.Owner = owner
		require.NoError(t, within(ctx, db, func(tx *sql.Tx) error { return insert(ctx, tx, r, time.Now()) }))
	}
	put("a", "ann")
	s := open(t, path, Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 3})
	put("b", "bob")
	put("c", "bob")
	require.NoError(t, s.Put(ctx, response("d", "")))
	_, err = s.Object(ctx, "ann", "a")
	require.NoError(t, err, "bob has as many, and ann comes")
	_, err = s.Object(ctx, "bob", "b")
	assert.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, s.Delete(ctx, "bob", "c"))
	var owners int
	require.NoError(t, s.opened.Load().db.QueryRow("SELECT count(*) FROM owners").Scan(&owners))
	assert.Equal(t, 1, owners)
}

// Any number of readers keeps no writer waiting.
func TestReadersKeepNoWriterWaiting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "r.db")
	s := open(t, path, roomy)
	require.NoError(t, s.Put(ctx, response("a", "")))
	read := func(tx *sql.Tx) (count int) {
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM responses").Scan(&count))
		return count
	}
	var reading []*sql.Tx
	for range s.opened.Load().reads.Stats().MaxOpenConnections {
		tx, err := s.opened.Load().reads.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 1, read(tx))
		reading = append(reading, tx)
	}
	require.NoError(t, s.Put(ctx, response("b", "a")))
	for _, tx := range reading {
		assert.Equal(t, 1, read(tx), "as it was")
		require.NoError(t, tx.Rollback())
	}
	history, err := s.History(ctx, "ann", "b")
	require.NoError(t, err)
	assert.Len(t, history, 4)

	require.NoError(t, s.sweep(ctx, time.Now()))
	journal, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	assert.Zero(t, journal.Size(), "the journal is empty")
}

// A sweep beside a long reader keeps no writer waiting, unless the journal has become
// large.
func TestSweepBesideALongReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	s := open(t, path, Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 100})
	require.NoError(t, s.Put(t.Context(), response("a", "")))
	reading := func() *sql.Tx {
		tx, err := s.opened.Load().reads.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		var count int
		require.NoError(t, tx.QueryRow("SELECT count(*) FROM responses").Scan(&count))
		return tx
	}
	journal := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second) // less than writers wait for each other
	defer cancel()
	reader := reading()
	require.NoError(t, s.sweep(short, time.Now()))
	assert.NotZero(t, journal(), "it is still read")
	var patience int
	require.NoError(t, s.opened.Load().db.QueryRow("PRAGMA busy_timeout").Scan(&patience))
	assert.Equal(t, 5000, patience, "writers wait for each other as long as ever")
	require.NoError(t, reader.Rollback())

	large := response("b", "")
	large.Object = make([]byte, 65<<20)
	require.NoError(t, s.Put(t.Context(), large))
	reader = reading()
	later := time.AfterFunc(10*moment, func() { assert.NoError(t, reader.Rollback()) })
	defer later.Stop()
	require.NoError(t, s.sweep(t.Context(), time.Now()))
	assert.Zero(t, journal(), "the large journal is emptied")
}

// A response is deleted when its retention after the last use is over. To continue a
// response is to use it.
func TestStoreDeletesAfterTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		require.NoError(t, s.Put(ctx, response("old", "")))
		require.NoError(t, s.Put(ctx, response("first", "")))
		require.NoError(t, s.Put(ctx, response("continued", "first")))
		time.Sleep(40 * time.Minute)
		require.NoError(t, s.Renew(ctx, "ann", "continued"))
		time.Sleep(40 * time.Minute)
		require.NoError(t, s.Put(ctx, response("new", "continued")))
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		_, err := s.Object(ctx, "ann", "old")
		assert.ErrorIs(t, err, ErrNotFound)
		_, err = s.History(ctx, "ann", "new")
		assert.NoError(t, err)
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		_, err = s.Object(ctx, "ann", "new")
		assert.ErrorIs(t, err, ErrNotFound)
		cancel()
		assert.NoError(t, <-ran)
	})
}
