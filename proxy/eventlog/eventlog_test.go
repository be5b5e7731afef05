package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/eventlog"
)

func opened(t testing.TB, dir string, limit int64) *eventlog.Logs {
	t.Helper()
	l := eventlog.New(dir, limit)
	require.NoError(t, l.Open())
	require.NoError(t, l.Open(), "again")
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, l.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		l.Close()
	})
	return l
}

func event(kind string, sequence, length int) string {
	return fmt.Sprintf("event: %s\ndata: {\"sequence_number\":%d,\"x\":\"%s\"}\n\n", kind, sequence,
		strings.Repeat("x", length))
}

// follow returns what a reader returns until the log is done. ended returns the size once the response has ended.
func follow(t testing.TB, r *eventlog.Reader, ended func() int64) (string, error) {
	t.Helper()
	defer r.Close()
	var all bytes.Buffer
	for bound := time.After(time.Minute); ; {
		r.Ended(ended())
		more, err := r.Next()
		for err == nil && more {
			require.NoError(t, r.WriteTo(&all, 1000))
			more, err = r.Next()
		}
		require.NoError(t, err)
		if done, err := r.Done(); done {
			return all.String(), err
		}
		r.Rest()
		select {
		case <-r.Changed():
		case <-bound:
			require.FailNow(t, "waited in vain")
		}
	}
}

func fixed(size int64) func() int64 { return func() int64 { return size } }

// Every follower gets every event after the one that it names, once and in order, whatever the size of events, and the
// last one after the end of the response.
func TestFollowersGetEveryEvent(t *testing.T) {
	l := opened(t, filepath.Join(t.TempDir(), "events"), 1<<30)
	other := opened(t, filepath.Dir(l.Path("x")), 1<<30) // another process
	w, err := l.Create("resp_1")
	require.NoError(t, err)
	var events []string
	for i := range 300 {
		events = append(events, event("response.output_text.delta", i, rand.IntN(40)*rand.IntN(1000)))
	}
	events = append(events, event("response.completed", 300, 40_000))
	var mu sync.Mutex
	size := int64(-1)
	ended := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return size
	}
	var followers sync.WaitGroup
	for i, from := range []*eventlog.Logs{l, other, l, other} {
		after := i*100 - 1
		r, err := from.Read("resp_1", after)
		require.NoError(t, err)
		followers.Go(func() {
			got, err := follow(t, r, ended)
			assert.NoError(t, err)
			assert.Equal(t, strings.Join(events[after+1:], ""), got)
		})
	}
	for i, e := range events {
		_, err := w.Write([]byte(e))
		require.NoError(t, err)
		if i%3 == 0 || i == 300 {
			require.NoError(t, w.Flush())
		}
		if i == 150 {
			w.Rest()
		}
	}
	mu.Lock()
	size = w.Size()
	mu.Unlock()
	w.Close()
	followers.Wait()
	r, err := l.Read("resp_1", 300)
	require.NoError(t, err)
	got, err := follow(t, r, ended)
	assert.NoError(t, err)
	assert.Empty(t, got, "there is none after the last one")
	require.NoError(t, l.Remove("resp_1"))
	require.NoError(t, l.Remove("resp_1"), "again")
	_, err = l.Read("resp_1", -1)
	assert.ErrorIs(t, err, eventlog.ErrNone)
}

// Many logs at a time need few file descriptors.
func TestManyLogs(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<30)
	const n = 200
	var writers []*eventlog.Writer
	var readers []*eventlog.Reader
	var followers sync.WaitGroup
	var got [n]string
	var ended [n]atomic.Int64
	size := int64(len(event("response.created", 0, 10)) + len(event("response.completed", 1, 10)))
	for i := range n {
		w, err := l.Create(fmt.Sprint(i))
		require.NoError(t, err)
		writers = append(writers, w)
		_, err = w.Write([]byte(event("response.created", 0, 10)))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		r, err := l.Read(fmt.Sprint(i), -1)
		require.NoError(t, err)
		ended[i].Store(-1)
		_, err = r.Next()
		require.NoError(t, err)
		r.Rest()
		readers = append(readers, r)
	}
	assert.Less(t, int(l.Files()), n/2)
	for i, r := range readers {
		followers.Go(func() {
			var err error
			got[i], err = follow(t, r, ended[i].Load)
			assert.NoError(t, err)
		})
	}
	for i, w := range writers {
		_, err := w.Write([]byte(event("response.completed", 1, 10)))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		assert.Equal(t, size, w.Size())
		ended[i].Store(size)
		w.Close()
	}
	followers.Wait()
	for i := range n {
		assert.Equal(t, event("response.created", 0, 10)+event("response.completed", 1, 10), got[i])
	}
	assert.Zero(t, l.Files())
}

// The last event is not returned before the response has ended, also if it is in the file.
func TestLastEventWaitsForTheEnd(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<20)
	w, err := l.Create("a")
	require.NoError(t, err)
	first, last := event("response.created", 0, 1), event("response.incomplete", 1, 1)
	_, err = w.Write([]byte(first + last))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	r, err := l.Read("a", -1)
	require.NoError(t, err)
	defer r.Close()
	var got bytes.Buffer
	for range 2 {
		more, err := r.Next()
		require.NoError(t, err)
		if more {
			require.NoError(t, r.WriteTo(&got, 1<<20))
		}
		done, err := r.Done()
		assert.False(t, done)
		assert.NoError(t, err)
	}
	assert.Equal(t, first, got.String())
	r.Ended(w.Size())
	more, err := r.Next()
	require.NoError(t, err)
	require.True(t, more)
	require.NoError(t, r.WriteTo(&got, 1<<20))
	assert.Equal(t, first+last, got.String())
}

// A log is ended behind the last whole event, wherever its writer died; a reader that was there before gets the same
// bytes as one that comes later, and another end changes nothing.
func TestEndOfAnAbandonedLog(t *testing.T) {
	whole := event("response.created", 0, 10) + event("response.output_text.delta", 1, 10)
	failed := func(sequence int) ([]byte, error) { return []byte(event("response.failed", sequence, 5)), nil }
	for name, c := range map[string]struct {
		torn     string
		sequence int
	}{
		"nothing":            {"", 2},
		"part of a name":     {"event: resp", 2},
		"part of an end":     {event("response.completed", 2, 10)[:40], 2},
		"half a newline":     {strings.TrimSuffix(event("response.x", 2, 3), "\n"), 2},
		"an unconfirmed end": {event("response.x", 2, 10) + event("response.completed", 3, 100), 3},
		"zeros":              {string(make([]byte, 5000)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := opened(t, t.TempDir(), 1<<20)
			w, err := l.Create("a")
			require.NoError(t, err)
			_, err = w.Write([]byte(whole + c.torn))
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			before, err := l.Read("a", -1)
			require.NoError(t, err)
			_, err = before.Next()
			require.NoError(t, err)
			want := whole
			if c.sequence == 3 {
				want += event("response.x", 2, 10)
			}
			want += event("response.failed", c.sequence, 5)
			for range 2 {
				size, err := l.End("a", failed)
				require.NoError(t, err)
				assert.Len(t, want, int(size))
			}
			got, err := follow(t, before, fixed(int64(len(want))))
			assert.NoError(t, err)
			assert.Equal(t, want, got)
			after, err := l.Read("a", 0)
			require.NoError(t, err)
			got, err = follow(t, after, fixed(int64(len(want))))
			assert.NoError(t, err)
			assert.Equal(t, want[len(event("response.created", 0, 10)):], got)
		})
	}
}

func TestEndErrors(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<20)
	_, err := l.End("none", nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = l.Create("a")
	require.NoError(t, err)
	reason := errors.New("a reason")
	_, err = l.End("a", func(int) ([]byte, error) { return nil, reason })
	assert.ErrorContains(t, err, "a reason")
}

// A log that lost its end, as in a power cut, is returned as far as it goes.
func TestCutLog(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<20)
	first := event("response.created", 0, 10)
	require.NoError(t, os.WriteFile(l.Path("a"), []byte(first+"event: response.comp"), 0o600))
	r, err := l.Read("a", -1)
	require.NoError(t, err)
	got, err := follow(t, r, fixed(1000))
	assert.ErrorIs(t, err, eventlog.ErrCut)
	assert.Equal(t, first, got)
}

// What one process writes at a time has a bound. Closed logs do not count.
func TestLimit(t *testing.T) {
	l := opened(t, t.TempDir(), 100)
	for _, id := range []string{"a", "b"} {
		w, err := l.Create(id)
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 80))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		_, err = w.Write(make([]byte, 80))
		require.NoError(t, err)
		assert.ErrorIs(t, w.Flush(), eventlog.ErrFull)
		_, err = w.Write([]byte("x"))
		assert.ErrorIs(t, err, eventlog.ErrFull, "from then on")
		w.Close()
		_, err = w.Write([]byte("x"))
		assert.Error(t, err)
	}
	_, err := l.Create("a")
	assert.ErrorIs(t, err, os.ErrExist)
}

// A process is alive as long as it holds its lock, also for another one.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	l, other := opened(t, dir, 1), eventlog.New(dir, 1)
	assert.Empty(t, other.Own())
	require.NoError(t, other.Open())
	name := other.Own()
	assert.True(t, l.Alive(name))
	assert.True(t, l.Alive(l.Own()))
	assert.False(t, l.Alive("process-gone.lock"))
	signals, stop := l.Signals()
	defer stop()
	<-signals // at first
	other.Signal(l.Own())
	<-signals
	l.Forget(name)
	assert.True(t, l.Alive(name), "it lives")
	other.Close()
	assert.False(t, l.Alive(name))
	// A process that was killed leaves its file.
	require.NoError(t, os.WriteFile(l.Path(name), nil, 0o600))
	assert.False(t, l.Alive(name))
	l.Forget(name)
	assert.NoFileExists(t, l.Path(name))
}

// A sweep removes what a killed process leaves, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	l, other := opened(t, dir, 1<<20), opened(t, dir, 1<<20)
	for _, id := range []string{"kept", "left"} {
		w, err := l.Create(id)
		require.NoError(t, err)
		w.Close()
	}
	killed := "process-killed.lock"
	require.NoError(t, os.WriteFile(l.Path(killed), nil, 0o600))
	reason := errors.New("a reason")
	assert.ErrorIs(t, l.Sweep(func(string) (bool, error) { return false, reason }), reason)
	require.NoError(t, l.Sweep(func(id string) (bool, error) { return id == "kept", nil }))
	for name, want := range map[string]bool{"kept": true, "left": false, killed: false, l.Own(): true, other.Own(): true} {
		_, err := os.Stat(l.Path(name))
		assert.Equal(t, want, err == nil, name)
	}
	assert.True(t, l.Alive(other.Own()))
	assert.Error(t, eventlog.New(l.Path("none"), 1).Sweep(nil))
}

// A process that begins while others look for those that have ended keeps its lock.
func TestProcessesBeginWhileOthersSweep(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	for range 2 {
		sweeping.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, l.Sweep(nil))
			}
		})
	}
	for range 200 {
		begun := eventlog.New(dir, 1)
		require.NoError(t, begun.Open())
		assert.True(t, l.Alive(begun.Own()))
		assert.FileExists(t, l.Path(begun.Own()))
		begun.Close()
	}
	cancel()
	sweeping.Wait()
}

func TestNoDirectory(t *testing.T) {
	l := eventlog.New(filepath.Join(t.TempDir(), "none", "events"), 1)
	assert.Error(t, l.Open())
	l.Close()
	_, err := l.Create("a")
	assert.Error(t, err)
}
