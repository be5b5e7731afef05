package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// startWatchdog runs the watchdog for 30 s of WatchdogSec= inside a bubble.
func startWatchdog(t *testing.T, m *manager, log *bytes.Buffer, check func(context.Context) error) {
	n := m.notifier()
	n.logger = slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.RunWatchdog(ctx, 30*time.Second, check) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		if n.conn != nil {
			n.conn.Close()
		}
	})
}

// pings advances the time by d and counts the pings.
func pings(t *testing.T, m *manager, d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	messages := m.pending(t)
	for _, message := range messages {
		assert.Equal(t, "WATCHDOG=1", message)
	}
	return len(messages)
}

func TestWatchdogFollowsCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, path)
		var log bytes.Buffer
		var culprit atomic.Pointer[error]
		fail := func(text string) { err := errors.New(text); culprit.Store(&err) }
		startWatchdog(t, m, &log, func(context.Context) error {
			if err := culprit.Load(); err != nil {
				return *err
			}
			return nil
		})

		assert.Equal(t, 9, pings(t, m, 95*time.Second), "one every ten seconds")
		fail("loop is stuck")
		assert.Zero(t, pings(t, m, time.Minute))
		assert.Equal(t, 1, strings.Count(log.String(), "loop is stuck"), log.String())
		culprit.Store(nil)
		assert.Equal(t, 1, pings(t, m, 2501*time.Millisecond), "failing checks are repeated sooner")
		assert.Equal(t, 3, pings(t, m, 30*time.Second))
		assert.Contains(t, log.String(), "pings resumed")
		fail("stuck again")
		assert.Zero(t, pings(t, m, 20*time.Second))
		assert.Contains(t, log.String(), "stuck again")
	})
}

func TestWatchdogBoundsCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, path)
		var log bytes.Buffer
		var healed atomic.Bool
		startWatchdog(t, m, &log, func(ctx context.Context) error {
			if !healed.Load() {
				<-ctx.Done()
			}
			return nil // too late
		})
		assert.Zero(t, pings(t, m, time.Minute))
		assert.Contains(t, log.String(), "check passed only after its 10s")
		healed.Store(true)
		assert.NotZero(t, pings(t, m, 15*time.Second))
	})
}

// The gap between pings stays below the interval for passing checks of any duration.
func TestWatchdogGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, path)
		durations := []time.Duration{0, 9999 * time.Millisecond}
		var last time.Time
		var longest atomic.Int64
		calls := 0
		startWatchdog(t, m, &bytes.Buffer{}, func(context.Context) error {
			time.Sleep(durations[calls%2])
			calls++
			if !last.IsZero() {
				longest.Store(max(longest.Load(), int64(time.Since(last))))
			}
			last = time.Now()
			return nil
		})
		for range 10 { // an unread socket takes only ten messages
			assert.GreaterOrEqual(t, pings(t, m, time.Minute), 4)
		}
		assert.LessOrEqual(t, time.Duration(longest.Load()), 20*time.Second)
	})
}
