package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A change wakes all that watch the file, and no other.
func TestChangesWake(t *testing.T) {
	w, err := New()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, w.Run(ctx)) })
	defer running.Wait()
	defer cancel()
	path, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, p := range []string{path, other} {
		require.NoError(t, os.WriteFile(p, nil, 0o600))
	}
	var watches []*Watch
	for _, p := range []string{path, path, other} {
		watch, err := w.Add(p, unix.IN_MODIFY)
		require.NoError(t, err)
		<-watch.Changed() // at first
		watches = append(watches, watch)
	}
	assert.Equal(t, 3, w.Len())
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	<-watches[0].Changed()
	<-watches[1].Changed()
	assert.Empty(t, watches[2].Changed())
	for _, watch := range watches {
		w.Remove(watch)
	}
	assert.Zero(t, w.Len())
}

// When the kernel lost events, all that wait look.
func TestLostEventsWakeAll(t *testing.T) {
	w, err := New()
	require.NoError(t, err)
	defer w.Close()
	watch, err := w.Add(t.TempDir(), unix.IN_CREATE)
	require.NoError(t, err)
	<-watch.Changed()
	overflow := []byte{0xff, 0xff, 0xff, 0xff, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // wd -1, IN_Q_OVERFLOW
	w.dispatch(overflow)
	<-watch.Changed()
}

// Without an instance, or without room for a watch, changes are looked for.
func TestWithoutTheKernel(t *testing.T) {
	for _, none := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		synctest.Test(t, func(t *testing.T) {
			w, err := newWatcher(func(int) (int, error) { return -1, none })
			require.NoError(t, err)
			require.ErrorContains(t, w.Refused(), "fs.inotify.max_user_instances")
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { assert.NoError(t, w.Run(ctx)) })
			watch, err := w.Add(t.TempDir(), unix.IN_CREATE|unix.IN_ONLYDIR)
			require.NoError(t, err)
			<-watch.Changed()
			began := time.Now()
			<-watch.Changed()
			<-watch.Changed()
			assert.LessOrEqual(t, time.Since(began), 2*pollEvery)
			assert.Equal(t, 1, w.Len())
			w.Remove(watch)
			assert.Zero(t, w.Len())

			_, err = w.Add("/nonexistent", unix.IN_CREATE)
			require.ErrorIs(t, err, os.ErrNotExist)
			_, err = w.Add("/proc/self/stat", unix.IN_CREATE|unix.IN_ONLYDIR)
			require.ErrorIs(t, err, unix.ENOTDIR)
			cancel()
			running.Wait()
			_, err = w.Add(t.TempDir(), unix.IN_CREATE)
			assert.Error(t, err)
		})
	}
	_, err := newWatcher(func(int) (int, error) { return -1, unix.EPERM })
	assert.ErrorIs(t, err, unix.EPERM)
}

func TestAClosedWatcherWatchesNothing(t *testing.T) {
	w, err := New()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	_, err = w.Add(t.TempDir(), unix.IN_CREATE)
	assert.Error(t, err)
}
