package health

import (
	"fmt"
	"strings"

	"codex-proxy/probes"
)

// StatusLine is the status that `systemctl status` shows.
func StatusLine(r probes.Report) string {
	if !r.Health.Readiness.Ready {
		return "Not ready: " + r.Health.Readiness.Details
	}
	ready, spare, drained := 0, 0, []string(nil)
	for _, w := range r.Workers {
		if w.Ready {
			ready++
		}
		if w.Reason == probes.Standby {
			spare++
		}
		if w.Drained {
			drained = append(drained, w.Name)
		}
	}
	line := fmt.Sprintf("Ready: %d of %d workers", ready, len(r.Workers))
	if spare > 0 {
		line += fmt.Sprintf("; %d on standby", spare)
	}
	if r.Health.Readiness.Reason == probes.QuotaExhausted {
		line += "; " + r.Health.Readiness.Details
	}
	if len(drained) > 0 {
		line += "; drained: " + strings.Join(drained, ", ")
	}
	return line
}
