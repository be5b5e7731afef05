// Package storedtest tests that a stored.Store does what its users rely on, whatever keeps the responses.
package storedtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/stored"
)

// Fresh makes an empty place for responses. open opens it, each time for another process or another host.
type Fresh func(t *testing.T, limits stored.Limits) (open func() stored.Store)

var roomy = stored.Limits{Retention: time.Hour, Bytes: 1 << 20, Count: 100}

// Contract tests the store.
func Contract(t *testing.T, fresh Fresh) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Fresh){
		"chains": chains, "roots of chains": roots, "endless histories": endless, "large responses": large,
		"conversations": conversations, "claims": claims, "claims that wait": waits, "growth": growth,
		"background": background, "orders": orders, "finished again": again, "too large": tooLarge,
		"ids that nothing has": strange,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh) })
	}
}

// response has an input and an output item that are named after it.
func response(id, previous string) stored.Response {
	return stored.Response{
		ID: id, Owner: "ann", Previous: previous, Worker: "w-" + id, Object: []byte(`{"id":"` + id + `"}`),
		Input:  []stored.Item{{ID: "in-" + id, JSON: json.RawMessage(`"in ` + id + `"`)}},
		Output: []stored.Item{{ID: "out-" + id, JSON: json.RawMessage(`"out ` + id + `"`)}},
	}
}

func bodies(items []stored.Item) (all []string) {
	for _, i := range items {
		all = append(all, strings.Trim(string(i.JSON), `"`)+"@"+i.Worker)
	}
	return all
}

func sizeOf(items []stored.Item) (bytes int64) {
	for _, i := range items {
		bytes += int64(len(i.JSON))
	}
	return bytes
}

func second[T any](_ T, err error) error { return err }

// inFlight is a response of ann.
func inFlight(id string) stored.InFlight { return stored.InFlight{ID: id, Owner: "ann"} }

// talk is a new conversation with items of these ids.
func talk(t *testing.T, s stored.Store, id string, items ...string) {
	t.Helper()
	c := stored.Conversation{ID: id, Owner: "ann", Created: 7, Metadata: json.RawMessage(`{}`)}
	require.NoError(t, s.CreateConversation(t.Context(), c, inputs(items...)))
}

func inputs(ids ...string) (items []stored.Item) {
	for _, id := range ids {
		items = append(items, stored.Item{ID: id, JSON: json.RawMessage(`"` + id + `"`)})
	}
	return items
}

// said is a response in a conversation.
func said(id, conversation string, extends bool) stored.Response {
	r := response(id, "")
	r.Conversation, r.Extends = conversation, extends
	r.Output[0].Worker = r.Worker
	return r
}

func idsOf(heads []stored.Head) (ids []string) {
	for _, h := range heads {
		ids = append(ids, h.ID)
	}
	return ids
}

func chains(t *testing.T, fresh Fresh) {
	ctx := t.Context()
	open := fresh(t, roomy)
	s := open()
	for _, r := range []stored.Response{response("a", ""), response("b", "a"), response("c", "b"), response("fork", "a")} {
		require.NoError(t, s.Put(ctx, r))
	}
	// The next process has what the last one has stored, while that still runs.
	s = open()

	object, err := s.Object(ctx, "ann", "b")
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"b"}`, string(object))
	history, err := s.History(ctx, "ann", "c")
	require.NoError(t, err)
	assert.Equal(t, []string{"in a@", "out a@w-a", "in b@", "out b@w-b", "in c@", "out c@w-c"}, bodies(history))
	forked, err := s.History(ctx, "ann", "fork")
	require.NoError(t, err)
	assert.Equal(t, []string{"in a@", "out a@w-a", "in fork@", "out fork@w-fork"}, bodies(forked))
	item, err := s.Item(ctx, "ann", "out-b")
	require.NoError(t, err)
	assert.Equal(t, stored.Item{ID: "out-b", JSON: json.RawMessage(`"out b"`), Worker: "w-b"}, item)
	worker, size, err := s.About(ctx, "ann", "c")
	require.NoError(t, err)
	assert.Equal(t, "w-c", worker)
	for _, item := range history {
		size -= int64(len(item.JSON))
	}
	assert.Zero(t, size)

	t.Run("of another owner", func(t *testing.T) {
		_, err := s.Object(ctx, "bob", "b")
		assert.ErrorIs(t, err, stored.ErrNotFound)
		_, err = s.History(ctx, "bob", "b")
		assert.ErrorIs(t, err, stored.ErrNotFound)
		_, err = s.Item(ctx, "bob", "out-b")
		assert.ErrorIs(t, err, stored.ErrNotFound)
		assert.ErrorIs(t, s.Delete(ctx, "bob", "b"), stored.ErrNotFound)
		theirs := response("d", "c")
		theirs.Owner = "bob"
		assert.ErrorIs(t, s.Put(ctx, theirs), stored.ErrNotFound, "a chain stays within one owner")
		_, err = s.Object(ctx, "bob", "d")
		assert.ErrorIs(t, err, stored.ErrNotFound)
	})
	t.Run("deleted", func(t *testing.T) {
		require.NoError(t, s.Delete(ctx, "ann", "b"))
		assert.ErrorIs(t, s.Delete(ctx, "ann", "b"), stored.ErrNotFound)
		_, err := s.Item(ctx, "ann", "out-b")
		assert.ErrorIs(t, err, stored.ErrNotFound)
		_, err = s.History(ctx, "ann", "c")
		assert.ErrorIs(t, err, stored.ErrBroken)
		_, err = s.Object(ctx, "ann", "c")
		assert.NoError(t, err, "the response can still be read")
		assert.ErrorIs(t, s.Put(ctx, response("e", "b")), stored.ErrNotFound)
		assert.ErrorIs(t, s.Put(ctx, response("e", "c")), stored.ErrBroken)
		_, err = s.History(ctx, "ann", "fork")
		assert.NoError(t, err)
	})
}

// The root of a chain is the same for all of its responses, and belongs to one owner.
func roots(t *testing.T, fresh Fresh) {
	ctx := t.Context()
	s := fresh(t, stored.Limits{Retention: time.Hour, Bytes: 4 << 20, Count: 100})()
	large := response("large", "")
	large.Object = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, r := range []stored.Response{response("a", ""), response("b", "a"), response("c", "b"), large} {
		require.NoError(t, s.Put(ctx, r))
	}
	for _, id := range []string{"a", "b", "c"} {
		root, err := s.Root(ctx, "ann", id)
		require.NoError(t, err)
		assert.JSONEq(t, `{"id":"a"}`, string(root))
	}
	root, err := s.Root(ctx, "ann", "large")
	require.NoError(t, err)
	assert.Nil(t, root)
	_, err = s.Root(ctx, "bob", "c")
	assert.ErrorIs(t, err, stored.ErrNotFound)
}

func endless(t *testing.T, fresh Fresh) {
	s := fresh(t, stored.Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 100})()
	previous := ""
	for i := range 4 {
		r := response(fmt.Sprintf("r%d", i), previous)
		r.Input[0].JSON = json.RawMessage(`"` + strings.Repeat("x", stored.MaxHistory/3) + `"`)
		require.NoError(t, s.Put(t.Context(), r))
		previous = r.ID
	}
	_, err := s.History(t.Context(), "ann", "r1")
	require.NoError(t, err)
	_, _, err = s.About(t.Context(), "ann", previous)
	assert.ErrorIs(t, err, stored.ErrTooLong)
	_, err = s.History(t.Context(), "ann", previous)
	assert.ErrorIs(t, err, stored.ErrTooLong)
}

// The tools and the output that a response repeats are no part of its history.
func large(t *testing.T, fresh Fresh) {
	s := fresh(t, stored.Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 100})()
	previous := ""
	for i := range 4 {
		r := response(fmt.Sprintf("r%d", i), previous)
		r.Object = make([]byte, stored.MaxHistory/3)
		require.NoError(t, s.Put(t.Context(), r))
		previous = r.ID
	}
	history, err := s.History(t.Context(), "ann", previous)
	require.NoError(t, err)
	assert.Len(t, history, 8)
}

func conversations(t *testing.T, fresh Fresh) {
	ctx := t.Context()
	open := fresh(t, roomy)
	s := open()
	talk(t, s, "conv", "i1", "i2")
	require.NoError(t, s.Put(ctx, said("a", "conv", true)))
	require.NoError(t, s.Put(ctx, said("cancelled", "conv", false)))
	require.NoError(t, s.Extend(ctx, "ann", "conv", "", inputs("i3")))
	require.NoError(t, s.Put(ctx, response("after", "a")))
	s = open() // of the next process

	c, err := s.Conversation(ctx, "ann", "conv")
	require.NoError(t, err)
	assert.Equal(t, stored.Conversation{ID: "conv", Owner: "ann", Created: 7, Metadata: json.RawMessage(`{}`)}, c)
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
		heads, more, err := s.ConversationHeads(ctx, "ann", "conv", stored.Listing{Limit: 2})
		require.NoError(t, err)
		assert.True(t, more)
		assert.Equal(t, []string{"i1", "i2"}, idsOf(heads))
		heads, more, err = s.ConversationHeads(ctx, "ann", "conv", stored.Listing{Limit: 3, After: "i2"})
		require.NoError(t, err)
		assert.False(t, more)
		assert.Equal(t, []string{"in-a", "out-a", "i3"}, idsOf(heads))
		heads, more, err = s.ConversationHeads(ctx, "ann", "conv", stored.Listing{Limit: 2, After: "i3", Descending: true})
		require.NoError(t, err)
		assert.True(t, more)
		assert.Equal(t, []string{"out-a", "in-a"}, idsOf(heads))
		_, _, err = s.ConversationHeads(ctx, "ann", "conv", stored.Listing{Limit: 2, After: "none"})
		assert.ErrorIs(t, err, stored.ErrNoItem)
		head, err := s.ConversationHead(ctx, "ann", "conv", "out-a", false)
		require.NoError(t, err)
		body, err := s.BodyPart(ctx, head, 1, 3)
		require.NoError(t, err)
		assert.Equal(t, "out", string(body))
		_, err = s.ConversationHead(ctx, "ann", "conv", "none", false)
		assert.ErrorIs(t, err, stored.ErrNoItem)
	})
	t.Run("its items by reference", func(t *testing.T) {
		item, err := s.Item(ctx, "ann", "i3")
		require.NoError(t, err)
		assert.JSONEq(t, `"i3"`, string(item.JSON))
		_, err = s.Item(ctx, "bob", "i3")
		assert.ErrorIs(t, err, stored.ErrNotFound)
	})
	t.Run("an id twice", func(t *testing.T) {
		assert.ErrorIs(t, s.Extend(ctx, "ann", "conv", "", inputs("new", "i1")), stored.ErrDuplicate)
		assert.ErrorIs(t, s.Put(ctx, said("a2", "conv", true)), nil)
		again := said("a3", "conv", true)
		again.Input[0].ID = "i1"
		assert.ErrorIs(t, s.Put(ctx, again), stored.ErrDuplicate)
		_, err := s.Object(ctx, "ann", "a3")
		assert.ErrorIs(t, err, stored.ErrNotFound, "neither of the two is stored")
		_, err = s.ConversationHead(ctx, "ann", "conv", "new", false)
		assert.ErrorIs(t, err, stored.ErrNoItem)
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
		assert.ErrorIs(t, second(s.History(ctx, "bob", "b")), stored.ErrBroken)
		assert.ErrorIs(t, second(s.ConversationHead(ctx, "ann", "conv", "in-b", false)), stored.ErrNoItem)
		for _, err := range []error{
			second(s.Conversation(ctx, "bob", "conv")), second(s.UpdateConversation(ctx, "bob", "conv", json.RawMessage(`{}`))),
			s.DeleteConversation(ctx, "bob", "conv"), s.Extend(ctx, "bob", "conv", "", inputs("x")),
			second(s.ConversationItems(ctx, "bob", "conv")), s.DeleteConversationItem(ctx, "bob", "conv", "i1"),
			second(s.ConversationHead(ctx, "bob", "conv", "i1", false)),
		} {
			assert.ErrorIs(t, err, stored.ErrNotFound)
		}
	})
	t.Run("less an item", func(t *testing.T) {
		require.NoError(t, s.DeleteConversationItem(ctx, "ann", "conv", "i2"))
		assert.ErrorIs(t, s.DeleteConversationItem(ctx, "ann", "conv", "i2"), stored.ErrNoItem)
		history, err := s.History(ctx, "ann", "a")
		require.NoError(t, err)
		assert.Equal(t, []string{"i1@", "in a@", "out a@w-a"}, bodies(history))
	})
	t.Run("less a response", func(t *testing.T) {
		require.NoError(t, s.Delete(ctx, "ann", "a"))
		_, err := s.ConversationHead(ctx, "ann", "conv", "out-a", false)
		assert.NoError(t, err, "the conversation keeps its items")
		assert.ErrorIs(t, second(s.History(ctx, "ann", "after")), stored.ErrBroken)
	})
	t.Run("deleted", func(t *testing.T) {
		require.NoError(t, s.DeleteConversation(ctx, "ann", "conv"))
		assert.ErrorIs(t, s.DeleteConversation(ctx, "ann", "conv"), stored.ErrNotFound)
		assert.ErrorIs(t, second(s.Item(ctx, "ann", "i3")), stored.ErrNotFound)
		assert.ErrorIs(t, second(s.History(ctx, "ann", "cancelled")), stored.ErrBroken)
		assert.ErrorIs(t, s.Put(ctx, response("late", "cancelled")), stored.ErrBroken)
		require.NoError(t, s.Put(ctx, said("late", "conv", true)), "its client has the answer")
		assert.ErrorIs(t, second(s.History(ctx, "ann", "late")), stored.ErrBroken)
		_, err := s.Object(ctx, "ann", "cancelled")
		assert.NoError(t, err, "the response can still be read")
	})
}

// A client that sees the end of a response may come back before the response has yielded its conversation.
func waits(t *testing.T, fresh Fresh) {
	open := fresh(t, roomy)
	one, two := open(), open()
	talk(t, one, "conv")
	for _, next := range []stored.Store{one, two} {
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

func growth(t *testing.T, fresh Fresh) {
	open := fresh(t, roomy)
	one, two := open(), open()
	talk(t, one, "conv")
	var all sync.WaitGroup
	for i := range 20 {
		s := []stored.Store{one, two}[i%2]
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

// A response that is larger than the limit of all together is not stored, and stays in flight.
func tooLarge(t *testing.T, fresh Fresh) {
	s := fresh(t, roomy)()
	require.NoError(t, s.Begin(t.Context(), inFlight("a"), []byte("{}"), nil, false))
	r := response("a", "")
	r.Log = s.Bytes()
	assert.ErrorIs(t, s.Finish(t.Context(), r), stored.ErrNoRoom)
	r.Log = 0
	assert.NoError(t, s.Finish(t.Context(), r))
}

// No id of a client is an error of the store.
func strange(t *testing.T, fresh Fresh) {
	ctx, s := t.Context(), fresh(t, roomy)()
	for _, id := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 1<<16), "'; DROP TABLE items"} {
		assert.ErrorIs(t, second(s.Object(ctx, "ann", id)), stored.ErrNotFound, "%q", id)
		assert.ErrorIs(t, second(s.Item(ctx, "ann", id)), stored.ErrNotFound, "%q", id)
		assert.ErrorIs(t, second(s.History(ctx, "ann", id)), stored.ErrNotFound, "%q", id)
		assert.ErrorIs(t, second(s.Conversation(ctx, "ann", id)), stored.ErrNotFound, "%q", id)
		assert.ErrorIs(t, s.Delete(ctx, "ann", id), stored.ErrNotFound, "%q", id)
		if id == "" {
			continue
		}
		assert.ErrorIs(t, s.Put(ctx, response("r", id)), stored.ErrNotFound, "%q", id)
		r := response("r"+fmt.Sprint(len(id)), "")
		r.Input[0].ID = id
		require.NoError(t, s.Put(ctx, r), "%q", id)
		assert.NoError(t, second(s.Item(ctx, "ann", id)), "%q", id)
	}
	// The encrypted part of reasoning is shown on demand.
	r := response("thought", "")
	r.Input[0] = stored.Item{ID: "rs_1", JSON: json.RawMessage(`{"type":"reasoning","encrypted_content":"x","id":"rs_1"}`)}
	require.NoError(t, s.Put(ctx, r))
	for encrypted, want := range map[bool]string{
		true: string(r.Input[0].JSON), false: `{"type":"reasoning","id":"rs_1"}`,
	} {
		heads, err := s.InputHeads(ctx, "ann", "thought", encrypted)
		require.NoError(t, err)
		require.Len(t, heads, 1)
		body, err := s.BodyPart(ctx, heads[0], 0, heads[0].Size)
		require.NoError(t, err)
		assert.Equal(t, want, string(body))
		part, err := s.BodyPart(ctx, heads[0], 1, 6)
		require.NoError(t, err)
		assert.Equal(t, want[1:7], string(part))
	}
}

// One response at a time has a conversation, among all; changes of its items do not lock each other out.
func claims(t *testing.T, fresh Fresh) {
	open := fresh(t, roomy)
	one, two := open(), open()
	for _, id := range []string{"conv", "other"} {
		talk(t, one, id)
	}
	locked := func(s stored.Store) error {
		return s.Change(t.Context(), "conv", func(context.Context) error { return nil })
	}
	require.NoError(t, one.Claim("conv", "a"))
	require.NoError(t, one.Claim("conv", "a"), "it has it already")
	require.NoError(t, one.Claim("other", "b"))
	for _, s := range []stored.Store{one, two} {
		assert.ErrorIs(t, s.Claim("conv", "b"), stored.ErrLocked)
		assert.ErrorIs(t, locked(s), stored.ErrLocked)
		s.Yield("conv", "b")
	}
	assert.ErrorIs(t, two.Claim("conv", "b"), stored.ErrLocked)
	one.Yield("conv", "a")
	require.NoError(t, two.Claim("conv", "b"))
	assert.ErrorIs(t, one.Claim("conv", "a"), stored.ErrLocked)
	two.Yield("conv", "b")
	require.NoError(t, one.Change(t.Context(), "conv", func(context.Context) error { return locked(two) }))
}
