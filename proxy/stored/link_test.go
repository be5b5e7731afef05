package stored

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
	"codex-proxy/test/nightly"
)

// changed is how many rows f writes, with those of triggers.
func changed(t *testing.T, s *File, f func()) (rows int64) {
	t.Helper()
	total := func() (n int64) {
		require.NoError(t, s.opened.Load().db.QueryRow("SELECT total_changes()").Scan(&n))
		return n
	}
	before := total()
	f()
	return total() - before
}

// The last turn of a long chain writes as many rows as the second one.
func TestPutWritesAsMuchForEachTurn(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "r.db"), Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 10_000})
	var rows []int64
	previous := ""
	for i := range 1000 {
		r := response(fmt.Sprintf("r%d", i), previous)
		rows = append(rows, changed(t, s, func() { require.NoError(t, s.Put(t.Context(), r)) }))
		previous = r.ID
	}
	assert.Equal(t, rows[1], slices.Max(rows[1:]))
	assert.EqualValues(t, 1, changed(t, s, func() { require.NoError(t, s.Renew(t.Context(), "ann", previous)) }))
	history, err := s.History(t.Context(), "ann", previous)
	require.NoError(t, err)
	assert.Len(t, history, 2000)
}

// A long history is read while another process writes.
func TestReadersDoNotWaitForAWriter(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
	require.NoError(t, s.Put(t.Context(), response("a", "")))
	require.NoError(t, s.Put(t.Context(), response("b", "a")))
	require.NoError(t, s.write(t.Context(), func(tx *sql.Tx) error {
		_, _, err := s.About(t.Context(), "ann", "b")
		require.NoError(t, err)
		_, err = s.History(t.Context(), "ann", "b")
		return err
	}))
}

// A file of an older version has no links, and the older process goes on writing to it.
// An older version may also be installed again.
func TestStoreCreatesMissingLinks(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sqlite.Open(ctx, path, schema, ownerSchema)
	require.NoError(t, err)
	defer db.Close()
	put := func(id, previous string) {
		t.Helper()
		require.NoError(t, within(ctx, db, func(tx *sql.Tx) error {
			return insert(ctx, tx, response(id, previous), time.Now())
		}))
	}
	for _, r := range [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"x", "gone"}, {"y", "x"}} {
		put(r[0], r[1])
	}
	s := open(t, path, roomy)
	history, err := s.History(ctx, "ann", "c")
	require.NoError(t, err)
	assert.Len(t, history, 6)
	require.NoError(t, s.Put(ctx, response("d", "c")))
	assert.ErrorIs(t, s.Put(ctx, response("z", "y")), ErrBroken)

	put("e", "d")
	require.NoError(t, s.Put(ctx, response("f", "e")))
	_, err = db.Exec(`UPDATE responses SET used = used + 7200000 WHERE id = 'f'`)
	require.NoError(t, err)
	require.NoError(t, s.sweep(ctx, time.Now().Add(90*time.Minute)))
	history, err = s.History(ctx, "ann", "f")
	require.NoError(t, err)
	assert.Len(t, history, 12)
	_, err = s.Object(ctx, "ann", "y")
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = db.Exec(`DELETE FROM responses WHERE id = 'e'`)
	require.NoError(t, err)
	assert.ErrorIs(t, s.Put(ctx, response("g", "f")), ErrBroken)
	var stale int
	require.NoError(t, s.opened.Load().db.QueryRow(`SELECT count(*) FROM links WHERE next <>
		(SELECT count(*) FROM links AS after WHERE after.previous = links.id)`).Scan(&stale))
	assert.Zero(t, stale)

	_, err = sqlite.Open(ctx, path, schema)
	assert.ErrorContains(t, err, "newer version", "links add no step to the schema")
}

// A chain that is too large loses its last responses first, and a chain in use goes
// after one that is not.
func TestRoomIsMadeAtTheEndsOfChains(t *testing.T) {
	ctx := t.Context()
	s := open(t, filepath.Join(t.TempDir(), "r.db"), Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 4})
	for _, r := range [][2]string{{"a0", ""}, {"b0", ""}, {"b1", "b0"}, {"a1", "a0"}, {"a2", "a1"}, {"a3", "a2"}} {
		require.NoError(t, s.Put(ctx, response(r[0], r[1])))
	}
	history, err := s.History(ctx, "ann", "a3")
	require.NoError(t, err)
	assert.Len(t, history, 8, "it was used last, from its first to its last response")
	require.NoError(t, s.Put(ctx, response("a4", "a3")))
	_, err = s.Object(ctx, "ann", "a0")
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorIs(t, s.Put(ctx, response("a5", "a4")), ErrBroken)
	_, err = s.Object(ctx, "ann", "a4")
	assert.NoError(t, err)
}

// model is the documented behaviour: continuing a response renews all before it.
type model map[string]*struct {
	previous string
	used     time.Time
}

func (m model) renew(id string) {
	for r := m[id]; r != nil; r = m[r.previous] {
		r.used = time.Now()
	}
}

func (m model) whole(id string) error {
	if m[id] == nil {
		return ErrNotFound
	}
	for ; id != ""; id = m[id].previous {
		if m[id] == nil {
			return ErrBroken
		}
	}
	return nil
}

func everyID(t *testing.T, s *File) (ids []string) {
	t.Helper()
	rows, err := s.opened.Load().reads.Query("SELECT id FROM responses ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

// The store has the same responses as the model after any calls of clients.
func TestStoreIsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context())
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		s := open(t, filepath.Join(t.TempDir(), "r.db"), Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 10_000})
		m := model{}
		var ids []string
		for i := range nightly.Or(1500, 400) {
			time.Sleep(time.Duration(random.IntN(int(time.Minute))))
			id := ""
			if len(ids) > 0 {
				id = ids[max(0, len(ids)-1-random.IntN(30))]
			}
			switch random.IntN(8) {
			case 0:
				err := s.Delete(ctx, "ann", id)
				assert.Equal(t, m[id] == nil, errors.Is(err, ErrNotFound))
				delete(m, id)
			case 1:
				if m.whole(id) == nil {
					require.NoError(t, s.Renew(ctx, "ann", id))
					m.renew(id)
				}
			case 2:
				require.NoError(t, s.sweep(ctx, time.Now()))
				for id, r := range m {
					if r.used.UnixMilli() < time.Now().Add(-time.Hour).UnixMilli() {
						delete(m, id)
					}
				}
				require.Equal(t, slices.Sorted(maps.Keys(m)), everyID(t, s))
			case 3:
				id = ""
				fallthrough
			default:
				r := response(fmt.Sprintf("r%d", i), id)
				err := s.Put(ctx, r)
				if id != "" {
					require.Equal(t, m.whole(id), errors.Unwrap(err), "%s continues %s", r.ID, id)
				}
				if err == nil {
					ids, m[r.ID] = append(ids, r.ID), &struct {
						previous string
						used     time.Time
					}{previous: id}
					m.renew(r.ID)
				}
			}
		}
		for _, id := range ids {
			_, err := s.Object(ctx, "ann", id)
			require.Equal(t, m[id] == nil, errors.Is(err, ErrNotFound), id)
			_, err = s.History(ctx, "ann", id)
			require.Equal(t, m.whole(id), err, id)
		}
	})
}

// Queries along chains find each response by an index: with thousands of responses, a
// scan would keep other processes from storing for minutes.
func TestChainsAreWalkedByAnIndex(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
	for query, args := range map[string][]any{
		chain + `SELECT id FROM chain`:                                           {"a", "ann"},
		after + `SELECT id FROM after`:                                           {"a", "ann", true, true},
		after + `UPDATE links SET broken = 1 WHERE id IN (SELECT id FROM after)`: {"a", "ann", false, false},
	} {
		rows, err := s.opened.Load().db.Query("EXPLAIN QUERY PLAN "+query, args...)
		require.NoError(t, err)
		for rows.Next() {
			var id, parent, unused int
			var step string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
			if strings.Contains(step, "links") {
				const search = `^SEARCH links USING ` +
					`(INDEX links_previous \(previous=\? AND owner=\?\)|PRIMARY KEY \(id=\?\))`
				assert.Regexp(t, search, step, query)
			}
		}
		require.NoError(t, rows.Close())
	}
}
