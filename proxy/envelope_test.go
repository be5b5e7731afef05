package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
	"codex-proxy/workers/dispatch"
)

// Retry-After is the time at which systemd starts the next worker, if that is known.
func TestRetryAfterIsTheNextRestart(t *testing.T) {
	next := time.Now().Add(7 * time.Second)
	e := envelope{report: func() probes.Report {
		return probes.Report{
			Health:  probes.Health{Readiness: probes.Readiness{Reason: probes.BackingOff}},
			Workers: []probes.Worker{{NextRestartAt: &next}},
		}
	}}
	refused := e.answer(&Exchange{}, dispatch.ErrNotReady)
	assert.Equal(t, "worker_not_ready", refused.Code)
	assert.Equal(t, 7*time.Second, refused.RetryAfter)
}
