package stored

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/eventlog"
)

// inFlight is a response of ann.
func inFlight(id string) InFlight { return InFlight{ID: id, Owner: "ann"} }

// dying returns a store whose process the test ends.
func dying(t *testing.T, path string) *File {
	t.Helper()
	s := New(Settings{
		Path: path, Limits: roomy, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, s.Open(t.Context()))
	return s
}

// logged makes a log with so many events for a response of the store.
func logged(t *testing.T, s *File, id string, events ...string) (w *eventlog.Writer) {
	t.Helper()
	w, err := s.Events.Create(id)
	require.NoError(t, err)
	for _, e := range events {
		_, err := fmt.Fprintf(w, "event: response.%s\ndata: {}\n\n", e)
		require.NoError(t, err)
	}
	require.NoError(t, w.Flush())
	return w
}

func total(t *testing.T, s *File) (count int, bytes int64) {
	t.Helper()
	require.NoError(t, s.opened.Load().db.QueryRow(`SELECT count, bytes FROM totals`).Scan(&count, &bytes))
	return count, bytes
}

// A background response is there for both processes until it ends, and is a stored one from then on. Its log counts for
// its size, and for no conversation.
func TestInFlight(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "r.db")
	s, other := open(t, path, roomy), open(t, path, roomy)
	require.NoError(t, s.Put(ctx, response("a", "")))
	f := inFlight("b")
	f.Previous = "a"
	require.NoError(t, s.Begin(ctx, f, []byte(`{"status":"queued"}`), []byte("request"), true))
	w := logged(t, s, "b", "created", "completed")
	for _, from := range []*File{s, other} {
		found, err := from.InFlight(ctx, "ann", "b")
		require.NoError(t, err)
		assert.Equal(t, InFlight{ID: "b", Owner: "ann", Previous: "a", Process: s.Events.Own(), Size: 19}, found)
		l, err := from.Log(ctx, "ann", "b")
		require.NoError(t, err)
		assert.Equal(t, Log{Process: s.Events.Own()}, l)
		for _, err := range []error{
			func() error { _, err := from.InFlight(ctx, "bob", "b"); return err }(),
			func() error { _, err := from.InFlightObject(ctx, "bob", "b"); return err }(),
			func() error { _, err := from.Log(ctx, "bob", "b"); return err }(),
			func() error { _, err := from.Object(ctx, "ann", "b"); return err }(),
			from.Cancel(ctx, "bob", "b"), from.Delete(ctx, "bob", "b"),
		} {
			assert.ErrorIs(t, err, ErrNotFound)
		}
	}
	request, err := s.Request(ctx, "b")
	require.NoError(t, err)
	assert.Equal(t, "request", string(request))
	assert.ErrorIs(t, other.Progress(ctx, "b", nil), ErrNotFound, "it is the other process's")
	require.NoError(t, s.Progress(ctx, "b", []byte(`{"status":"in_progress"}`)))
	object, err := other.InFlightObject(ctx, "ann", "b")
	require.NoError(t, err)
	assert.JSONEq(t, `{"status":"in_progress"}`, string(object))
	size, err := s.RequestSize(ctx, "b")
	require.NoError(t, err)
	assert.Zero(t, size, "nobody needs it any more")

	_, before := total(t, s)
	r := response("b", "a")
	r.Log = w.Size()
	require.NoError(t, s.Finish(ctx, r))
	w.Close()
	_, after := total(t, s)
	assert.Equal(t, w.Size()+int64(len(`{"id":"b"}"in b""out b"`)), after-before)
	_, err = other.InFlight(ctx, "ann", "b")
	assert.ErrorIs(t, err, ErrNotFound)
	l, err := other.Log(ctx, "ann", "b")
	require.NoError(t, err)
	assert.Equal(t, Log{Size: w.Size()}, l)
	_, chain, err := other.About(ctx, "ann", "b")
	require.NoError(t, err)
	assert.EqualValues(t, len(`"in a""out a""in b""out b"`), chain)
	changed := r
	changed.Object = []byte(`{"id":"b","is":"another"}`)
	assert.ErrorIs(t, s.Finish(ctx, changed), ErrNotFound, "once")
	object, err = other.Object(ctx, "ann", "b")
	require.NoError(t, err)
	assert.Equal(t, string(r.Object), string(object))
	l, err = other.Log(ctx, "ann", "b")
	require.NoError(t, err)
	assert.Equal(t, Log{Size: w.Size()}, l)

	require.NoError(t, other.Delete(ctx, "ann", "b"))
	_, err = s.Log(ctx, "ann", "b")
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = s.Events.Read("b", -1)
	assert.ErrorIs(t, err, eventlog.ErrNone)
}

// Another process cancels or deletes a response in flight, and its own one is woken for that.
func TestOrdersToAnotherProcess(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "r.db")
	s, other := open(t, path, roomy), open(t, path, roomy)
	running, stop := context.WithCancel(context.Background())
	var events sync.WaitGroup
	events.Go(func() { assert.NoError(t, s.Events.Run(running)) })
	defer events.Wait()
	defer stop()
	for _, id := range []string{"a", "b"} {
		require.NoError(t, s.Begin(ctx, inFlight(id), []byte("{}"), nil, true))
		logged(t, s, id).Close()
	}
	signals, end := s.Events.Signals()
	defer end()
	<-signals // at first
	require.NoError(t, other.Cancel(ctx, "ann", "a"))
	<-signals
	ids, err := s.Ordered(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, ids)
	f, err := other.InFlight(ctx, "ann", "a")
	require.NoError(t, err)
	assert.True(t, f.Cancelled)

	require.NoError(t, other.Delete(ctx, "ann", "b"))
	<-signals
	ids, err = s.Ordered(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, ids)
	_, err = other.InFlight(ctx, "ann", "b")
	assert.ErrorIs(t, err, ErrNotFound, "to clients it is deleted")
	_, err = other.Log(ctx, "ann", "b")
	assert.ErrorIs(t, err, ErrNotFound)
	assert.ErrorIs(t, other.Delete(ctx, "ann", "b"), ErrNotFound)
	assert.ErrorIs(t, other.Cancel(ctx, "ann", "b"), ErrNotFound)
	assert.ErrorIs(t, s.Finish(ctx, response("b", "")), ErrNotFound)
	_, err = s.Events.Read("b", -1)
	assert.ErrorIs(t, err, eventlog.ErrNone)
	require.NoError(t, s.Finish(ctx, response("a", "")), "a cancelled one is stored")
}

// The responses of a process that has ended end once, although two processes find them, and so do their logs.
func TestAbandoned(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "r.db")
	dead := dying(t, path)
	const n = 50
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		require.NoError(t, dead.Begin(ctx, inFlight(id), []byte(id), []byte("request"), i%2 == 0))
		if i%4 == 0 {
			logged(t, dead, id, "created", "queued", "completed")
		}
	}
	require.NoError(t, dead.Begin(ctx, inFlight("deleted"), []byte("{}"), nil, true))
	logged(t, dead, "deleted", "created")
	require.NoError(t, dead.Delete(ctx, "ann", "deleted"))
	s, other := open(t, path, roomy), open(t, path, roomy)
	require.NoError(t, dead.Begin(ctx, inFlight("cancelled"), []byte("cancelled"), nil, false))
	require.NoError(t, s.Cancel(ctx, "ann", "cancelled"))
	end := func(object []byte, sequence int, cancelled bool) (ended, events []byte, err error) {
		assert.Equal(t, string(object) == "cancelled", cancelled)
		return append([]byte("failed "), object...), fmt.Appendf(nil, "event: response.failed\ndata: %d\n\n", sequence), nil
	}
	ended, err := s.EndAbandoned(ctx, end)
	require.NoError(t, err)
	assert.Zero(t, ended, "the process lives")
	require.NoError(t, dead.Close())

	var counts [2]Abandoned
	var finders sync.WaitGroup
	for i, finder := range []*File{s, other} {
		finders.Go(func() {
			var err error
			counts[i], err = finder.EndAbandoned(ctx, end)
			assert.NoError(t, err)
		})
	}
	finders.Wait()
	assert.Equal(t, Abandoned{n, 1, 1}, Abandoned{counts[0].Failed + counts[1].Failed,
		counts[0].Cancelled + counts[1].Cancelled, counts[0].Deleted + counts[1].Deleted})
	count, _ := total(t, s)
	assert.Equal(t, n+1, count)
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		object, err := other.Object(ctx, "ann", id)
		require.NoError(t, err)
		assert.Equal(t, "failed "+id, string(object))
		_, err = other.InputHeads(ctx, "ann", id, true)
		assert.ErrorIs(t, err, ErrBroken, "its input is not stored")
		assert.ErrorIs(t, s.Put(ctx, response("after", id)), ErrBroken)
		l, err := other.Log(ctx, "ann", id)
		if i%4 > 0 {
			assert.ErrorIs(t, err, ErrNotFound)
			continue
		}
		require.NoError(t, err)
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), EventsDirectory, id))
		require.NoError(t, err)
		assert.Len(t, data, int(l.Size))
		assert.True(t, strings.HasSuffix(string(data), "event: response.failed\ndata: 2\n\n"), "%s", data)
		assert.NotContains(t, string(data), "completed", "that end was not stored")
	}
	_, err = s.Events.Read("deleted", -1)
	assert.ErrorIs(t, err, eventlog.ErrNone)
}

// What cannot be ended stays in flight for the next try.
func TestAbandonedErrors(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "r.db")
	dead := dying(t, path)
	require.NoError(t, dead.Begin(ctx, inFlight("a"), []byte("{}"), nil, false))
	require.NoError(t, dead.Close())
	s := open(t, path, roomy)
	reason := errors.New("a reason")
	_, err := s.EndAbandoned(ctx, func([]byte, int, bool) ([]byte, []byte, error) { return nil, nil, reason })
	assert.ErrorContains(t, err, "a reason")
	_, err = s.InFlight(ctx, "ann", "a")
	assert.NoError(t, err)
}

// Logs go with their responses, also with those that another version of the program deletes.
func TestLogsGoWithTheirResponses(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "r.db")
	s := open(t, path, roomy)
	for _, id := range []string{"a", "b", "lost"} {
		require.NoError(t, s.Begin(ctx, inFlight(id), []byte("{}"), nil, true))
		logged(t, s, id).Close()
		if id == "lost" {
			require.NoError(t, s.LoseLog(ctx, id))
		}
		require.NoError(t, s.Finish(ctx, response(id, "")))
	}
	_, err := s.opened.Load().db.Exec(`DELETE FROM responses WHERE id = 'a'`)
	require.NoError(t, err)
	_, err = s.Log(ctx, "ann", "a")
	assert.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, s.sweep(ctx, time.Now()))
	for id, want := range map[string]error{"a": eventlog.ErrNone, "b": nil, "lost": eventlog.ErrNone} {
		r, err := s.Events.Read(id, -1)
		assert.ErrorIs(t, err, want)
		if err == nil {
			r.Close()
		}
	}
	var rows int
	require.NoError(t, s.opened.Load().db.QueryRow(`SELECT count(*) FROM logs`).Scan(&rows))
	assert.Equal(t, 1, rows)
}

// Logs without a response are removed at the start, and others are not.
func TestOrphanedLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	s := open(t, path, roomy)
	require.NoError(t, s.Begin(t.Context(), inFlight("flies"), []byte("{}"), nil, true))
	for _, id := range []string{"flies", "orphan"} {
		logged(t, s, id, "created").Close()
	}
	require.NoError(t, s.removeOrphans(t.Context()))
	for id, want := range map[string]error{"flies": nil, "orphan": eventlog.ErrNone} {
		r, err := s.Events.Read(id, -1)
		assert.ErrorIs(t, err, want, id)
		if err == nil {
			r.Close()
		}
	}
	assert.True(t, s.Events.Alive(s.Events.Own()))
	assert.FileExists(t, filepath.Join(filepath.Dir(path), EventsDirectory, s.Events.Own()))
}

// A response that was stored although Finish has failed, as when the answer to a commit is lost, is there once.
func TestFinishAgain(t *testing.T) {
	ctx := t.Context()
	s := open(t, filepath.Join(t.TempDir(), "r.db"), roomy)
	require.NoError(t, s.Begin(ctx, inFlight("a"), []byte("{}"), nil, true))
	w := logged(t, s, "a", "created", "completed")
	w.Close()
	r := response("a", "")
	r.Log = w.Size()
	for range 2 {
		require.NoError(t, s.Finish(ctx, r))
		l, err := s.Log(ctx, "ann", "a")
		require.NoError(t, err)
		assert.Equal(t, Log{Size: r.Log}, l)
		reader, err := s.Events.Read("a", -1)
		require.NoError(t, err)
		reader.Close()
	}
	count, _ := total(t, s)
	assert.Equal(t, 1, count)
	require.NoError(t, s.Delete(ctx, "ann", "a"))
	assert.ErrorIs(t, s.Finish(ctx, r), ErrNotFound)
}
