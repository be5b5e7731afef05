package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
)

// talk is a new conversation with items of these ids.
func talk(t *testing.T, s *Store, id string, items ...string) {
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

func idsOf(heads []Head) (ids []string) {
	for _, h := range heads {
		ids = append(ids, h.ID)
	}
	return ids
}

func TestConversations(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "responses.db")
	s := open(t, path, roomy)
	talk(t, s, "conv", "i1", "i2")
	require.NoError(t, s.Put(ctx, said("a", "conv", true)))
	require.NoError(t, s.Put(ctx, said("cancelled", "conv", false)))
	require.NoError(t, s.Extend(ctx, "ann", "conv", "", inputs("i3")))
	require.NoError(t, s.Put(ctx, response("after", "a")))
	s = open(t, path, roomy) // of the next process

	c, err := s.Conversation(ctx, "ann", "conv")
	require.NoError(t, err)
	assert.Equal(t, Conversation{ID: "conv", Owner: "ann", Created: 7, Metadata: json.RawMessage(`{}`)}, c)
	items, err := s.ConversationItems(ctx, "ann", "conv")
	require.NoError(t, err)
	assert.Equal(t, []string{"i1@", "i2@", "in a@", "out a@w-a", "i3@"}, bodies(items))
	worker, size, err := s.ConversationAbout(ctx, "ann", "conv")
	require.NoError(t, err)
	assert.Equal(t, "w-a", worker)
	assert.Equal(t, sizeOf(items), size)

	t.Run("the history of its responses", func(t *testing.T) {
		for id, want := range map[string][]string{
			"a":         {"i1@", "i2@", "in a@", "out a@w-a"},
			"after":     {"i1@", "i2@", "in a@", "out a@w-a", "in after@", "out after@w-after"},
			"cancelled": {"i1@", "i2@", "in a@", "out a@w-a", "in cancelled@", "out cancelled@w-cancelled"},
		} {
			history, err := s.History(ctx, "ann", id)
			require.NoError(t, err, id)
			assert.Equal(t, want, bodies(history), id)
			_, size, err := s.About(ctx, "ann", id)
			require.NoError(t, err)
			assert.Equal(t, sizeOf(history), size, id)
			heads, err := s.InputHeads(ctx, "ann", id, false)
			require.NoError(t, err)
			require.Len(t, heads, len(want)-1)
			for i, h := range heads {
				body, err := s.BodyPart(ctx, h, 0, h.Size)
				require.NoError(t, err)
				assert.JSONEq(t, string(history[i].JSON), string(body))
			}
		}
	})
	t.Run("listed", func(t *testing.T) {
		heads, more, err := s.ConversationHeads(ctx, "ann", "conv", Listing{Limit: 2})
		require.NoError(t, err)
		assert.True(t, more)
		assert.Equal(t, []string{"i1", "i2"}, idsOf(heads))
		heads, more, err = s.ConversationHeads(ctx, "ann", "conv", Listing{Limit: 3, After: "i2"})
		require.NoError(t, err)
		assert.False(t, more)
		assert.Equal(t, []string{"in-a", "out-a", "i3"}, idsOf(heads))
		heads, more, err = s.ConversationHeads(ctx, "ann", "conv", Listing{Limit: 2, After: "i3", Descending: true})
		require.NoError(t, err)
		assert.True(t, more)
		assert.Equal(t, []string{"out-a", "in-a"}, idsOf(heads))
		_, _, err = s.ConversationHeads(ctx, "ann", "conv", Listing{Limit: 2, After: "none"})
		assert.ErrorIs(t, err, ErrNoItem)
		head, err := s.ConversationHead(ctx, "ann", "conv", "out-a", false)
		require.NoError(t, err)
		body, err := s.BodyPart(ctx, head, 1, 3)
		require.NoError(t, err)
		assert.Equal(t, "out", string(body))
		_, err = s.ConversationHead(ctx, "ann", "conv", "none", false)
		assert.ErrorIs(t, err, ErrNoItem)
	})
	t.Run("its items by reference", func(t *testing.T) {
		item, err := s.Item(ctx, "ann", "i3")
		require.NoError(t, err)
		assert.JSONEq(t, `"i3"`, string(item.JSON))
		_, err = s.Item(ctx, "bob", "i3")
		assert.ErrorIs(t, err, ErrNotFound)
	})
	t.Run("an id twice", func(t *testing.T) {
		assert.ErrorIs(t, s.Extend(ctx, "ann", "conv", "", inputs("new", "i1")), ErrDuplicate)
		assert.ErrorIs(t, s.Put(ctx, said("a2", "conv", true)), nil)
		again := said("a3", "conv", true)
		again.Input[0].ID = "i1"
		assert.ErrorIs(t, s.Put(ctx, again), ErrDuplicate)
		_, err := s.Object(ctx, "ann", "a3")
		assert.ErrorIs(t, err, ErrNotFound, "neither of the two is stored")
		_, err = s.ConversationHead(ctx, "ann", "conv", "new", false)
		assert.ErrorIs(t, err, ErrNoItem)
	})
	t.Run("metadata", func(t *testing.T) {
		c, err := s.UpdateConversation(ctx, "ann", "conv", json.RawMessage(`{"a":"b"}`))
		require.NoError(t, err)
		assert.JSONEq(t, `{"a":"b"}`, string(c.Metadata))
		assert.EqualValues(t, 7, c.Created)
	})
	t.Run("of another owner", func(t *testing.T) {
		theirs := said("b", "conv", true)
		theirs.Owner = "bob"
		require.NoError(t, s.Put(ctx, theirs))
		assert.ErrorIs(t, second(s.History(ctx, "bob", "b")), ErrBroken)
		assert.ErrorIs(t, second(s.ConversationHead(ctx, "ann", "conv", "in-b", false)), ErrNoItem)
		for _, err := range []error{
			second(s.Conversation(ctx, "bob", "conv")), second(s.UpdateConversation(ctx, "bob", "conv", json.RawMessage(`{}`))),
			s.DeleteConversation(ctx, "bob", "conv"), s.Extend(ctx, "bob", "conv", "", inputs("x")),
			second(s.ConversationItems(ctx, "bob", "conv")), s.DeleteConversationItem(ctx, "bob", "conv", "i1"),
			second(s.ConversationHead(ctx, "bob", "conv", "i1", false)),
		} {
			assert.ErrorIs(t, err, ErrNotFound)
		}
	})
	t.Run("less an item", func(t *testing.T) {
		require.NoError(t, s.DeleteConversationItem(ctx, "ann", "conv", "i2"))
		assert.ErrorIs(t, s.DeleteConversationItem(ctx, "ann", "conv", "i2"), ErrNoItem)
		history, err := s.History(ctx, "ann", "a")
		require.NoError(t, err)
		assert.Equal(t, []string{"i1@", "in a@", "out a@w-a"}, bodies(history))
	})
	t.Run("less a response", func(t *testing.T) {
		require.NoError(t, s.Delete(ctx, "ann", "a"))
		_, err := s.ConversationHead(ctx, "ann", "conv", "out-a", false)
		assert.NoError(t, err, "the conversation keeps its items")
		assert.ErrorIs(t, second(s.History(ctx, "ann", "after")), ErrBroken)
		var starts int
		require.NoError(t, s.opened.Load().db.QueryRow(
			"SELECT count(*) FROM conversation_starts WHERE response = 'a'").Scan(&starts))
		assert.Zero(t, starts)
	})
	t.Run("deleted", func(t *testing.T) {
		require.NoError(t, s.DeleteConversation(ctx, "ann", "conv"))
		assert.ErrorIs(t, s.DeleteConversation(ctx, "ann", "conv"), ErrNotFound)
		assert.ErrorIs(t, second(s.Item(ctx, "ann", "i3")), ErrNotFound)
		assert.ErrorIs(t, second(s.History(ctx, "ann", "cancelled")), ErrBroken)
		assert.ErrorIs(t, s.Put(ctx, response("late", "cancelled")), ErrBroken)
		require.NoError(t, s.Put(ctx, said("late", "conv", true)), "its client has the answer")
		assert.ErrorIs(t, second(s.History(ctx, "ann", "late")), ErrBroken)
		_, err := s.Object(ctx, "ann", "cancelled")
		assert.NoError(t, err, "the response can still be read")
		var owners int
		require.NoError(t, s.opened.Load().db.QueryRow("SELECT count(*) FROM conversation_owners").Scan(&owners))
		assert.Zero(t, owners)
	})
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
	assert.Equal(t, first.size(), bytes, "the size of conversations is no reason to delete responses")
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
	locked := func(s *Store) error {
		return s.Change(t.Context(), "conv", func(context.Context) error { return nil })
	}
	require.NoError(t, one.Claim("conv", "a"))
	require.NoError(t, one.Claim("conv", "a"), "it has it already")
	require.NoError(t, one.Claim("other", "b"))
	for _, s := range []*Store{one, two} {
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

// A client that sees the end of a response may come back before the response has yielded its conversation.
func TestAClaimWaitsForTheOneThatEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	one, two := open(t, path, roomy), open(t, path, roomy)
	for _, next := range []*Store{one, two} {
		require.NoError(t, one.Claim("conv", "a"))
		claimed := make(chan error)
		go func() { claimed <- next.Claim("conv", "b") }()
		one.Yield("conv", "a")
		require.NoError(t, <-claimed)
		go func() {
			claimed <- one.Change(t.Context(), "conv", func(context.Context) error { return nil })
		}()
		next.Yield("conv", "b")
		require.NoError(t, <-claimed)
	}
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

func TestConversationsGrowAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	one, two := open(t, path, roomy), open(t, path, roomy)
	talk(t, one, "conv")
	var all sync.WaitGroup
	for i := range 20 {
		s := []*Store{one, two}[i%2]
		all.Go(func() {
			assert.NoError(t, s.Extend(t.Context(), "ann", "conv", "", inputs(fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))))
		})
	}
	all.Wait()
	items, err := one.ConversationItems(t.Context(), "ann", "conv")
	require.NoError(t, err)
	require.Len(t, items, 40)
	for pair := range slices.Chunk(items, 2) {
		assert.Equal(t, pair[0].ID[1:], pair[1].ID[1:])
	}
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

func plan(t *testing.T, s *Store, query string) (steps string) {
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
