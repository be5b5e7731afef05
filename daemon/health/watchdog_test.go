package health

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/internal/nudge"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// The outcome of the last pass stands in the report until a later pass succeeds.
func TestStuckIsPublished(t *testing.T) {
	changed := nudge.New()
	pool := workers.NewPool(nil, dispatch.Queue{Limit: 1, Timeout: time.Second, ReadyTimeout: time.Second}, func() {})
	h := New(Settings{
		Pool: pool, Changed: changed.Touch, Dependencies: func() []probes.Dependency { return nil },
		Remotes: func() []probes.Remote { return nil }, Brokers: func() []probes.Broker { return nil },
	})
	h.found(nil)
	assert.Empty(t, changed, "nothing new")
	h.found(errors.New("the loop does not answer"))
	<-changed
	live, reason := probes.LivenessOf(h.snapshot())
	assert.False(t, live)
	assert.Equal(t, probes.Stuck, reason)
	h.found(nil)
	<-changed
	live, _ = probes.LivenessOf(h.snapshot())
	assert.True(t, live)
}
