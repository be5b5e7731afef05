package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
)

// talk is a new conversation with items of these ids.
func talk(t *testing.T, s *File, id string, items ...string) {
	t.Helper()
	c := Conversation{ID: id, Owner: "ann", Created: 7, Metadata: json.RawMessage(`{}`)}
	require.NoError(t, s.CreateConversation(t.Context(), c, inputs(items...)))
}

func inputs(ids ...string) (items []Item) {
	for _, id := range ids {
		items = append(items, Item{ID: id, JSON: json.RawMessage(`"` + id + `"`)})
	}
	return items
}

// said is a response in a conversation.
func said(id, conversation string, extends bool) Response {
	r := response(id, "")
	r.Conversation, r.Extends = conversation, extends
	r.Output[0].Worker = r.Worker
	return r
}

func second[T any](_ T, err error) error { return err }

// Conversations and responses share one limit, and the one used longest ago goes.
func TestConversationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context())
		s := open(t, filepath.Join(t.TempDir(), "r.db"), Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 4})
		for i := range 3 {
			time.Sleep(time.Second)
			require.NoError(t, s.Put(ctx, response(fmt.Sprintf("r%d", i), "")))
			time.Sleep(time.Second)
			talk(t, s, fmt.Sprintf("c%d", i), "x")
		}
		there := func() (ids []string) {
			for i := range 3 {
				if _, err := s.Conversation(ctx, "ann", fmt.Sprintf("c%d", i)); err == nil {
					ids = append(ids, fmt.Sprintf("c%d", i))
				}
			}
			return append(ids, everyID(t, s)...)
		}
		assert.Equal(t, []string{"c1", "c2", "r1", "r2"}, there())
		require.NoError(t, s.Extend(ctx, "ann", "c1", "", inputs("y")))
		talk(t, s, "c0", "x")
		assert.Equal(t, []string{"c0", "c1", "c2", "r2"}, there())

		large := inputs("large")
		large[0].JSON = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		assert.ErrorIs(t, s.Extend(ctx, "ann", "c1", "", large), ErrNoRoom)
		large[0].JSON = large[0].JSON[1<<10:]
		assert.Equal(t, []string{"c0", "c1", "c2", "r2"}, there(), "what is too large removes nothing")
		require.NoError(t, s.Extend(ctx, "ann", "c1", "", large))
		assert.Subset(t, there(), []string{"c1"})
	})
}

// A conversation is deleted when its retention after the last use is over.
func TestConversationsAreDeletedAfterTheRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context())
		s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
		talk(t, s, "old", "x")
		talk(t, s, "used", "x")
		time.Sleep(40 * time.Minute)
		require.NoError(t, s.Put(ctx, said("a", "used", true)))
		time.Sleep(40 * time.Minute)
		require.NoError(t, s.sweep(ctx, time.Now()))
		assert.ErrorIs(t, second(s.Conversation(ctx, "ann", "old")), ErrNotFound)
		assert.NoError(t, second(s.Conversation(ctx, "ann", "used")))
		time.Sleep(40 * time.Minute)
		require.NoError(t, s.sweep(ctx, time.Now()))
		assert.ErrorIs(t, second(s.Conversation(ctx, "ann", "used")), ErrNotFound)
	})
}

// The release before knows no conversations. It keeps its promises with a file that has some, and does not continue a
// response without its history.
func TestOlderVersionsIgnoreConversations(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "r.db")
	s := open(t, path, Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 3})
	talk(t, s, "conv", "x")
	require.NoError(t, s.Put(ctx, said("a", "conv", true)))
	older, err := sqlite.Open(ctx, path, steps...)
	require.NoError(t, err)
	defer older.Close()
	var bytes, missing, broken int64
	require.NoError(t, older.QueryRow(`SELECT bytes FROM totals`).Scan(&bytes))
	first := said("a", "", false)
	assert.Equal(t, first.Size(), bytes, "the size of conversations is no reason to delete responses")
	require.NoError(t, older.QueryRow(chain+`SELECT sum(links.id IS NULL)
		FROM chain LEFT JOIN links ON links.id = chain.id AND owner = ?`, "a", "ann", "ann").Scan(&missing))
	assert.EqualValues(t, 1, missing, "the chain is broken to it")
	// As it stores a response, and deletes one.
	_, err = older.Exec(`INSERT INTO responses VALUES ('b', 'ann', 'a', 'w', ?, 2, x'7b7d')`, time.Now().UnixMilli())
	require.NoError(t, err)
	_, err = older.Exec(`DELETE FROM responses WHERE id = 'a'`)
	require.NoError(t, err)
	s = open(t, path, roomy)
	require.NoError(t, older.QueryRow(`SELECT broken FROM links WHERE id = 'b'`).Scan(&broken))
	assert.EqualValues(t, 1, broken)
	items, err := s.ConversationItems(ctx, "ann", "conv")
	require.NoError(t, err)
	assert.Len(t, items, 3)
}

// One response at a time has a conversation, among all processes; changes of its items do not lock each other out.
func TestOneResponseHasAConversation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	one, two := open(t, path, roomy), open(t, path, roomy)
	locked := func(s *File) error {
		return s.Change(t.Context(), "conv", func(context.Context) error { return nil })
	}
	require.NoError(t, one.Claim("conv", "a"))
	require.NoError(t, one.Claim("conv", "a"), "it has it already")
	require.NoError(t, one.Claim("other", "b"))
	for _, s := range []*File{one, two} {
		assert.ErrorIs(t, s.Claim("conv", "b"), ErrLocked)
		assert.ErrorIs(t, locked(s), ErrLocked)
		s.Yield("conv", "b")
	}
	assert.ErrorIs(t, two.Claim("conv", "b"), ErrLocked)
	one.Yield("conv", "a")
	require.NoError(t, two.Claim("conv", "b"))
	assert.ErrorIs(t, one.Claim("conv", "a"), ErrLocked)
	require.NoError(t, two.locks.close(), "as at the end of its process")
	two.locks.file = nil
	require.NoError(t, one.Claim("conv", "a"))
	one.Yield("conv", "a")

	require.NoError(t, one.Change(t.Context(), "conv", func(context.Context) error {
		assert.NoError(t, locked(one))
		assert.ErrorIs(t, one.Claim("conv", "a"), ErrLocked)
		other := open(t, path, roomy)
		assert.NoError(t, locked(other))
		assert.ErrorIs(t, other.Claim("conv", "a"), ErrLocked)
		return nil
	}))
	require.NoError(t, one.Claim("conv", "a"))
}

// Items that many add at once are all there, each group of them together.
func TestLocksThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "responses.db")
	s := open(t, path, roomy)
	require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(path), LocksName), 0o700))
	assert.ErrorIs(t, s.Claim("conv", "a"), ErrUnavailable)
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(path), LocksName)))
	require.NoError(t, s.Claim("conv", "a"), "once it can be")
}

// Queries of conversations find rows by an index.
func TestConversationsAreFoundByAnIndex(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
	for _, query := range []string{
		`SELECT id FROM conversation_items WHERE conversation = '' AND position > 1 ORDER BY position LIMIT 2`,
		`SELECT id FROM conversation_items WHERE conversation = '' AND position < 1 ORDER BY position DESC LIMIT 2`,
		`SELECT position FROM conversation_items WHERE id = '' AND conversation = ''`,
		`SELECT owner, id FROM conversations WHERE used < 1 ORDER BY used LIMIT 1`,
		`SELECT id, used FROM conversations WHERE id <> '' AND owner = '' ORDER BY used LIMIT 1`,
	} {
		plan := plan(t, s, query)
		assert.NotContains(t, plan, "SCAN", query)
		assert.NotContains(t, plan, "B-TREE", query)
	}
}

func plan(t *testing.T, s *File, query string) (steps string) {
	t.Helper()
	rows, err := s.opened.Load().db.Query("EXPLAIN QUERY PLAN " + query)
	require.NoError(t, err)
	defer func(rows *sql.Rows) { assert.NoError(t, rows.Close()) }(rows)
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		steps += step + "\n"
	}
	return steps
}
