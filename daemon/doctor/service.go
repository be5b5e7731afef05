package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// manyRestarts in a row are a finding even if the worker is ready again.
const manyRestarts = 3

// checkService checks the daemon's report of itself and its workers.
func checkService(_ context.Context, s *survey) []Finding {
	switch {
	case errors.Is(s.reportErr, control.ErrForbidden):
		return []Finding{unprivileged(proxyUnit, "ask the daemon")}
	case s.controlGone():
		return []Finding{unchecked("", "its control socket is gone", "sockets")}
	case errors.Is(s.reportErr, control.ErrNotRunning):
		return []Finding{fail(proxyUnit, "does not run",
			"systemctl start codex.target; if it ends again, journalctl -u codex-proxy -n 20")}
	case s.reportErr != nil:
		return []Finding{fail(proxyUnit, s.reportErr.Error(),
			"systemctl status codex-proxy; journalctl -u codex-proxy -n 20")}
	}
	var found []Finding
	ready := s.report.Health.Readiness
	if !ready.Ready {
		found = append(found, fail(proxyUnit, fmt.Sprintf("is not ready (%s): %s", ready.Reason, ready.Details),
			"codex-proxy status; journalctl -u codex-proxy -n 20"))
	}
	for _, w := range s.report.Workers {
		found = append(found, judgeWorker(w, ready.Ready)...)
	}
	if s.replaced(s.units[proxyUnit].MainPID) {
		found = append(found, warn(proxyUnit, "runs a program that has been replaced since",
			"systemctl reload codex-proxy"))
	}
	for _, w := range s.workers {
		if unit := w.unit(); s.replaced(s.units[unit].MainPID) {
			found = append(found, warn("worker "+w.name, "runs a program that has been replaced since",
				"systemctl restart "+unit))
		}
	}
	if q := s.report.Queue; q.Limit > 0 && q.Depth >= q.Limit {
		found = append(found, warn("queue", fmt.Sprintf("is full: %d requests wait", q.Depth),
			"add a worker, or raise max_inflight or queue_limit"))
	}
	return orOK(found, s.readyLine())
}

// readyLine describes a service with all workers as they should be.
func (s *survey) readyLine() string {
	spare := 0
	for _, w := range s.report.Workers {
		if w.Reason == probes.Standby {
			spare++
		}
	}
	all := len(s.report.Workers)
	line := fmt.Sprintf("ready, %d of %d workers", all-spare, all)
	if spare > 0 {
		line += fmt.Sprintf("; %d on standby", spare)
	}
	return line
}

func judgeWorker(w probes.Worker, serviceReady bool) []Finding {
	switch {
	case w.Drained:
		return []Finding{warn("worker "+w.Name, "was drained by an operator: it takes no new turns",
			"codex-proxy undrain "+w.Name)}
	case w.Reason == probes.Standby && serviceReady:
		return nil
	case !w.Ready && serviceReady: // else the finding of the service names the worker
		return []Finding{fail("worker "+w.Name, fmt.Sprintf("is not ready (%s)", w.Reason),
			"codex-proxy status; journalctl -u "+w.Unit+" -n 20")}
	case w.Ready && w.ConsecutiveFailures >= manyRestarts:
		return []Finding{warn("worker "+w.Name, fmt.Sprintf("has failed %d times in a row, last exit %s",
			w.ConsecutiveFailures, w.LastExit), "journalctl -u "+w.Unit)}
	}
	return nil
}

// checkModels checks that each worker offers models to clients.
func checkModels(_ context.Context, s *survey) []Finding {
	if s.reportErr != nil {
		return []Finding{unchecked("", "the daemon does not answer", "service")}
	}
	var found []Finding
	for _, w := range s.report.Workers {
		subject := "worker " + w.Name
		switch {
		case w.Reason == probes.Standby:
			found = append(found, ok(subject, "is a standby: its account is not needed now"))
		case w.Handshake == nil:
			found = append(found, unchecked(subject, "it is not connected", "service"))
		case len(w.Handshake.Models) == 0:
			found = append(found, fail(subject, "offers no model",
				"see login and codex above, and `model` in "+workerFile(w.Name)))
		default:
			found = append(found, ok(subject, "offers "+abbreviated(w.Handshake.Models)))
		}
	}
	if len(found) == 0 {
		return []Finding{unchecked("", "the daemon has no worker", "service")}
	}
	return found
}

func abbreviated(models []string) string {
	const most = 4
	if len(models) <= most {
		return strings.Join(models, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(models[:most], ", "), len(models)-most)
}
