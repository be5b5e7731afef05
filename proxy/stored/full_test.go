package stored

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite/sqlitetest"
)

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// A store that begins on a full disk counts its tries, logs nothing else, and stores
// as soon as there is room.
func TestFullDiskAtStart(t *testing.T) {
	dir, room := sqlitetest.FullDisk(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log journal
		registry := prometheus.NewRegistry()
		s := New(Settings{
			Path: filepath.Join(dir, FileName), Limits: roomy, Registry: registry,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer func() { assert.NoError(t, s.Close()) }()
		require.Error(t, s.Open(ctx))
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		for range 5 {
			time.Sleep(retry)
			synctest.Wait()
		}
		assert.InDelta(t, 6, testutil.ToFloat64(s.failures), 0)
		assert.ErrorIs(t, s.Put(ctx, response("a", "")), ErrUnavailable)
		assert.ErrorIs(t, s.Renew(ctx, "ann", "a"), ErrUnavailable)
		assert.ErrorIs(t, s.Delete(ctx, "ann", "a"), ErrUnavailable)
		_, err := s.Object(ctx, "ann", "a")
		assert.ErrorIs(t, err, ErrUnavailable)
		_, err = s.Item(ctx, "ann", "a")
		assert.ErrorIs(t, err, ErrUnavailable)
		_, _, err = s.About(ctx, "ann", "a")
		assert.ErrorIs(t, err, ErrUnavailable)
		_, err = s.History(ctx, "ann", "a")
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.Empty(t, log.String())

		room()
		time.Sleep(retry)
		synctest.Wait()
		require.NoError(t, s.Put(ctx, response("a", "")))
		assert.Contains(t, log.String(), "responses are kept again")
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		assert.Empty(t, problems)
		cancel()
		assert.NoError(t, <-ran)
	})
}

// Writes to a disk that becomes full later are counted, and reads go on.
func TestFullDiskLater(t *testing.T) {
	dir, room := sqlitetest.FullDisk(t)
	room()
	s := open(t, filepath.Join(dir, FileName), roomy)
	require.NoError(t, s.Put(t.Context(), response("a", "")))
	large := response("b", "")
	large.Object = make([]byte, 1<<20-100)
	require.Error(t, s.Put(t.Context(), large))
	assert.InDelta(t, 1, testutil.ToFloat64(s.failures), 0)
	_, err := s.History(t.Context(), "ann", "a")
	require.NoError(t, err)
	require.ErrorIs(t, s.Put(t.Context(), response("c", "none")), ErrNotFound)
	assert.InDelta(t, 1, testutil.ToFloat64(s.failures), 0, "the refusal is no fault of the disk")
}
