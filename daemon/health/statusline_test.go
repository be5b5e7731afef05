package health

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
)

func TestStatusLine(t *testing.T) {
	r := probes.Report{Workers: []probes.Worker{
		{Name: "a", Reason: probes.Ready, Ready: true}, {Name: "b", Reason: probes.Standby},
		{Name: "c", Reason: probes.Draining, Drained: true},
	}}
	r.Health.Readiness = probes.Readiness{Ready: true, Reason: probes.Ready}
	assert.Equal(t, "Ready: 1 of 3 workers; 1 on standby; drained: c", StatusLine(r))
	r.Health.Readiness = probes.Readiness{Reason: probes.Standby, Details: "why"}
	assert.Equal(t, "Not ready: why", StatusLine(r))
}
