package brokerunit

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/internal/nudge"
)

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards now
		now, lines, changed := brokerstate.State{Endpoint: "https://model.test"}, []string(nil), nudge.New()
		p := &publisher{state: func() *brokerstate.State { mu.Lock(); defer mu.Unlock(); s := now; return &s }, changed: changed, dir: dir, ready: "Ready",
			status: func(line string) { lines = append(lines, line) }, logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go p.run(ctx)
		set := func(streams int, failure *brokerstate.Failure) *brokerstate.State {
			mu.Lock()
			now.Streams, now.Line.Failure = streams, failure
			mu.Unlock()
			changed.Touch()
			<-time.After(publishPause + time.Millisecond)
			synctest.Wait()
			s, err := brokerstate.Read(dir)
			require.NoError(t, err)
			return s
		}
		assert.Equal(t, 1, set(1, nil).Streams)
		assert.Empty(t, lines)
		failure := func(reason string, over bool) *brokerstate.Failure {
			return &brokerstate.Failure{Reason: reason, Over: over, At: time.Now()}
		}
		assert.Equal(t, "refused", set(2, failure("refused", false)).Line.Failure.Reason)
		set(3, failure("refused", false))
		set(4, failure("tls", false))
		set(5, failure("tls", true))
		set(1, failure("tls", true))
		mu.Lock()
		now.Line.Sent = 7 // of the answer in flight: nothing reports it
		mu.Unlock()
		<-time.After(publishPeriod)
		synctest.Wait()
		s, err := brokerstate.Read(dir)
		require.NoError(t, err)
		assert.Equal(t, uint64(7), s.Line.Sent)
		assert.Equal(t, []string{"Cannot reach https://model.test (refused): it refuses connections",
			"Cannot reach https://model.test (tls): it does not finish the handshake of TLS", "Ready"}, lines)
	})
}

// Without room for the file the broker works on.
func TestUnwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	p := &publisher{state: func() *brokerstate.State { return &brokerstate.State{} }, dir: dir, logger: slog.New(slog.DiscardHandler)}
	p.publish()
	assert.True(t, p.mute)
	require.NoError(t, os.Mkdir(dir, 0o700))
	p.publish()
	assert.False(t, p.mute)
}
