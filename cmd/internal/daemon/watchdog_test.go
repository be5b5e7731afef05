package daemon

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/workers"
)

// What the last pass found stands in the picture until a later pass finds it mended.
func TestStuckIsPublished(t *testing.T) {
	pool := workers.NewPool(nil, workers.Queue{Limit: 1, Timeout: time.Second}, func() {})
	d := &Daemon{pool: pool, handoff: &succession{}, changed: make(chan struct{}, 1)}
	d.control = control.New(pool, d.report, &d.keyTable, drainTable{d}, slog.New(slog.DiscardHandler))
	d.found(nil)
	assert.Empty(t, d.changed, "nothing new")
	d.found(errors.New("the loop does not answer"))
	<-d.changed
	live, reason := probes.LivenessOf(d.snapshot())
	assert.False(t, live)
	assert.Equal(t, probes.Stuck, reason)
	d.found(nil)
	<-d.changed
	live, _ = probes.LivenessOf(d.snapshot())
	assert.True(t, live)
}
