package storedtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/stored"
)

// A background response is there for all until it ends, and is a stored one from then on, with its events.
func background(t *testing.T, fresh Fresh) {
	ctx, open := t.Context(), fresh(t, roomy)
	s, other := open(), open()
	require.NoError(t, s.Put(ctx, response("a", "")))
	f := inFlight("b")
	f.Previous = "a"
	require.NoError(t, s.Begin(ctx, f, []byte(`{"status":"queued"}`), []byte("request"), true))
	log, err := s.Logs().Create("b")
	require.NoError(t, err)
	const events = "event: response.created\ndata: {}\n\nevent: response.completed\ndata: {}\n\n"
	_, err = log.Write([]byte(events))
	require.NoError(t, err)
	require.NoError(t, log.Flush())
	for _, from := range []stored.Store{s, other} {
		found, err := from.InFlight(ctx, "ann", "b")
		require.NoError(t, err)
		assert.Equal(t, stored.InFlight{ID: "b", Owner: "ann", Previous: "a", Process: s.Logs().Own(), Size: 19}, found)
		l, err := from.Log(ctx, "ann", "b")
		require.NoError(t, err)
		assert.Equal(t, stored.Log{Process: s.Logs().Own()}, l)
		for _, err := range []error{
			second(from.InFlight(ctx, "bob", "b")), second(from.InFlightObject(ctx, "bob", "b")),
			second(from.Log(ctx, "bob", "b")), second(from.Object(ctx, "ann", "b")),
			from.Cancel(ctx, "bob", "b"), from.Delete(ctx, "bob", "b"),
		} {
			assert.ErrorIs(t, err, stored.ErrNotFound)
		}
	}
	assert.ErrorIs(t, other.Progress(ctx, "b", nil), stored.ErrNotFound, "it is the other process's")
	require.NoError(t, s.Progress(ctx, "b", []byte(`{"status":"in_progress"}`)))
	object, err := other.InFlightObject(ctx, "ann", "b")
	require.NoError(t, err)
	assert.JSONEq(t, `{"status":"in_progress"}`, string(object))

	r := response("b", "a")
	r.Log = log.Size()
	require.NoError(t, s.Finish(ctx, r))
	log.Close()
	for _, from := range []stored.Store{s, other} {
		assert.ErrorIs(t, second(from.InFlight(ctx, "ann", "b")), stored.ErrNotFound)
		l, err := from.Log(ctx, "ann", "b")
		require.NoError(t, err)
		assert.Equal(t, stored.Log{Size: log.Size()}, l)
		for after, want := range map[int]string{-1: events, 0: events[len(events)/2-1:]} {
			reader, err := from.ReadLog(ctx, "ann", "b", after)
			require.NoError(t, err)
			reader.Ended(l.Size)
			more, err := reader.Next()
			require.NoError(t, err)
			require.True(t, more)
			var read strings.Builder
			require.NoError(t, reader.WriteTo(&read, 1<<20))
			assert.True(t, strings.HasSuffix(events, read.String()), read.String())
			assert.Contains(t, read.String(), "completed")
			assert.Equal(t, after < 0, strings.Contains(read.String(), "created"), want)
			done, err := reader.Done()
			assert.True(t, done)
			require.NoError(t, err)
			reader.Close()
		}
	}
	_, chain, err := other.About(ctx, "ann", "b")
	require.NoError(t, err)
	assert.EqualValues(t, len(`"in a""out a""in b""out b"`), chain)
	require.NoError(t, other.Delete(ctx, "ann", "b"))
	assert.ErrorIs(t, second(s.Log(ctx, "ann", "b")), stored.ErrNotFound)
}

// Another process cancels a response in flight, or deletes it.
func orders(t *testing.T, fresh Fresh) {
	ctx, open := t.Context(), fresh(t, roomy)
	s, other := open(), open()
	for _, id := range []string{"a", "b"} {
		require.NoError(t, s.Begin(ctx, inFlight(id), []byte("{}"), nil, false))
	}
	require.NoError(t, other.Cancel(ctx, "ann", "a"))
	f, err := other.InFlight(ctx, "ann", "a")
	require.NoError(t, err)
	assert.True(t, f.Cancelled)
	require.NoError(t, other.Delete(ctx, "ann", "b"))
	assert.ErrorIs(t, second(other.InFlight(ctx, "ann", "b")), stored.ErrNotFound, "to clients it is deleted")
	assert.ErrorIs(t, other.Delete(ctx, "ann", "b"), stored.ErrNotFound)
	assert.ErrorIs(t, other.Cancel(ctx, "ann", "b"), stored.ErrNotFound)
	assert.ErrorIs(t, s.Finish(ctx, response("b", "")), stored.ErrNotFound)
	require.NoError(t, s.Finish(ctx, response("a", "")), "a cancelled one is stored")
	assert.NoError(t, second(other.Object(ctx, "ann", "a")))
}

// A response that was stored although Finish has failed, as when the answer to a commit is lost, is there once.
func again(t *testing.T, fresh Fresh) {
	ctx, s := t.Context(), fresh(t, roomy)()
	require.NoError(t, s.Begin(ctx, inFlight("a"), []byte("{}"), nil, false))
	for range 2 {
		require.NoError(t, s.Finish(ctx, response("a", "")))
	}
	require.NoError(t, s.Delete(ctx, "ann", "a"))
	assert.ErrorIs(t, s.Finish(ctx, response("a", "")), stored.ErrNotFound)
	_, err := s.ReadLog(ctx, "ann", "a", -1)
	assert.ErrorIs(t, err, eventlog.ErrNone)
}
