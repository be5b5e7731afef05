package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watching returns a Watcher that runs until the end of the test.
func watching(t testing.TB) *Watcher {
	t.Helper()
	w, err := NewWatcher()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, w.Run(ctx)) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// followed reads all until the log has ended, or until enough says so.
func followed(w *Watcher, r *Reader, ended <-chan struct{}, enough func([]byte) bool) ([]byte, error) {
	f, err := w.Follow(r, ended)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []byte
	for !enough(all) {
		c, err := r.Next()
		if errors.Is(err, io.EOF) {
			err = f.Wait(context.Background())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c.Data...)
	}
	return all, nil
}

func never([]byte) bool { return false }

func TestFollowersGetEveryByte(t *testing.T) {
	w, l := watching(t), newLog(t, 1<<30, nil)
	ended := make(chan struct{})
	var readers sync.WaitGroup
	results := make([][]byte, 4)
	for i := range results {
		r := l.open(t, int64(i))
		readers.Go(func() {
			var err error
			results[i], err = followed(w, r, ended, never)
			assert.NoError(t, err)
		})
	}
	var want bytes.Buffer
	for i := range 3000 {
		text := fmt.Sprintf("line %d\n", i)
		want.WriteString(text)
		require.NoError(t, l.write(Stream(1+i%2), []byte(text)))
	}
	close(ended)
	readers.Wait()
	for i, got := range results {
		assert.Equal(t, want.String()[i:], string(got))
	}
	assert.Zero(t, w.Len())
}

// A reader that comes back where it was gets everything once.
func TestReconnectingHasNoGap(t *testing.T) {
	w, l := watching(t), newLog(t, 1<<30, nil)
	ended := make(chan struct{})
	var writer sync.WaitGroup
	var want bytes.Buffer
	writer.Go(func() {
		for i := range 2000 {
			text := fmt.Sprintf("line %d\n", i)
			want.WriteString(text)
			assert.NoError(t, l.write(Stdout, []byte(text)))
		}
		close(ended)
	})
	var got []byte
	for {
		part, err := followed(w, l.open(t, int64(len(got))), ended, func(all []byte) bool { return len(all) > 500 })
		require.NoError(t, err)
		if got = append(got, part...); len(part) <= 500 {
			break
		}
	}
	writer.Wait()
	assert.Equal(t, want.String(), string(got))
}

// What is there comes before the log ends, also without a newline.
func TestPromptIsSeenAtOnce(t *testing.T) {
	w, l := watching(t), newLog(t, 1<<20, nil)
	r := l.open(t, 0)
	f, err := w.Follow(r, nil)
	require.NoError(t, err)
	defer f.Close()
	lines := NewLines(r)
	var seen []Line
	for _, text := range []string{"name: ", "eve\n"} {
		require.NoError(t, l.write(Stdout, []byte(text)))
		for before := len(seen); len(seen) == before; {
			require.NoError(t, f.Wait(t.Context()))
			seen = append(seen, linesOf(t, lines)...)
		}
	}
	assert.Equal(t, []string{"stdout name: ", "stdout eve$"}, shown(seen))
}

func TestTailIsReadAtTheEnd(t *testing.T) {
	w, l := watching(t), newLog(t, 1<<20, nil)
	_, err := l.Writer.output.WriteAt([]byte("tail"), 0)
	require.NoError(t, err)
	ended := make(chan struct{})
	close(ended)
	got, err := followed(w, l.open(t, 0), ended, never)
	require.NoError(t, err)
	assert.Equal(t, "tail", string(got))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	w, l := watching(t), newLog(t, 1<<20, nil)
	f, err := w.Follow(l.open(t, 0), nil)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Wait(t.Context()), "the first one returns at once")
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	assert.ErrorIs(t, f.Wait(ctx), gone)
}

func TestAClosedWatcherFollowsNothing(t *testing.T) {
	w, err := NewWatcher()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	l := newLog(t, 1<<20, nil)
	_, err = w.Follow(l.open(t, 0), nil)
	assert.ErrorContains(t, err, "cannot watch the log "+l.index+": ")
}

func TestArrivals(t *testing.T) {
	w, dir := watching(t), t.TempDir()
	arrived, stop, err := w.Arrivals(dir)
	require.NoError(t, err)
	defer stop()
	<-arrived // at first
	part := filepath.Join(dir, "part")
	require.NoError(t, os.WriteFile(part, nil, 0o600))
	require.NoError(t, os.Rename(part, filepath.Join(dir, "whole")))
	<-arrived
	_, _, err = w.Arrivals(filepath.Join(dir, "none"))
	assert.ErrorContains(t, err, "cannot watch "+dir+"/none: no such file")
}
