package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
	"codex-proxy/workers"
)

// The outcome of the last pass stands in the report until a later pass succeeds.
func TestStuckIsPublished(t *testing.T) {
	changed := newChanges(func() {})
	pool := workers.NewPool(nil, workers.Queue{Limit: 1, Timeout: time.Second, ReadyTimeout: time.Second}, func() {})
	h := &health{
		pool: pool, changed: changed.reportChanged, dependencies: func() []probes.Dependency { return nil },
		remotes: func() []probes.Remote { return nil },
	}
	h.found(nil)
	assert.Empty(t, changed.report, "nothing new")
	h.found(errors.New("the loop does not answer"))
	<-changed.report
	live, reason := probes.LivenessOf(h.snapshot())
	assert.False(t, live)
	assert.Equal(t, probes.Stuck, reason)
	h.found(nil)
	<-changed.report
	live, _ = probes.LivenessOf(h.snapshot())
	assert.True(t, live)
}
