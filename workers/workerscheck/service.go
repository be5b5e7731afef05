package workerscheck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/units/survey"
	"codex-proxy/workers/control"
)

// manyRestarts in a row are a finding even if the worker is ready again.
const manyRestarts = 3

// service checks the daemon's report of itself and its workers.
func (r *room) service(context.Context) []checkup.Finding {
	switch {
	case errors.Is(r.ReportErr, control.ErrForbidden):
		return []checkup.Finding{survey.Unprivileged(paths.ServiceUnit, "ask the daemon")}
	case r.controlGone():
		return checkup.Unchecked("", "its control socket is gone", "sockets").Alone()
	case errors.Is(r.ReportErr, control.ErrNotRunning):
		return checkup.Failure(paths.ServiceUnit, "does not run",
			"systemctl start codex.target; if it ends again, journalctl -u codex-proxy -n 20").Alone()
	case r.ReportErr != nil:
		return checkup.Failure(paths.ServiceUnit, r.ReportErr.Error(),
			"systemctl status codex-proxy; journalctl -u codex-proxy -n 20").Alone()
	}
	var found []checkup.Finding
	ready := r.Report.Health.Readiness
	if !ready.Ready {
		found = append(found, checkup.Failure(paths.ServiceUnit, fmt.Sprintf("is not ready (%s): %s", ready.Reason,
			ready.Details), "codex-proxy status; journalctl -u codex-proxy -n 20"))
	}
	for _, w := range r.Report.Workers {
		found = append(found, judgeWorker(w, ready.Ready)...)
	}
	if r.Replaced(r.Units[paths.ServiceUnit].MainPID) {
		found = append(found, checkup.Warning(paths.ServiceUnit, "runs a program that has been replaced since",
			"systemctl reload codex-proxy"))
	}
	for _, w := range r.workers {
		if unit := w.Unit(); w.Host == "" && r.Replaced(r.Units[unit].MainPID) {
			found = append(found, checkup.Warning(w.Subject(), "runs a program that has been replaced since",
				"systemctl restart "+unit))
		}
	}
	if q := r.Report.Queue; q.Limit > 0 && q.Depth >= q.Limit {
		found = append(found, checkup.Warning("queue", fmt.Sprintf("is full: %d requests wait", q.Depth),
			"add a worker, or raise max_inflight or queue_limit"))
	}
	return checkup.OrPassed(found, readyLine(r.Report.Workers))
}

// readyLine describes a service with all workers as they should be.
func readyLine(workers []probes.Worker) string {
	spare := 0
	for _, w := range workers {
		if w.Reason == probes.Standby {
			spare++
		}
	}
	all := len(workers)
	line := fmt.Sprintf("ready, %d of %d workers", all-spare, all)
	if spare > 0 {
		line += fmt.Sprintf("; %d on standby", spare)
	}
	return line
}

func judgeWorker(w probes.Worker, serviceReady bool) []checkup.Finding {
	switch {
	case w.Drained:
		return checkup.Warning("worker "+w.Name, "was drained by an operator: it takes no new turns",
			"codex-proxy undrain "+w.Name).Alone()
	case w.Reason == probes.Standby && serviceReady:
		return nil
	case !w.Ready && serviceReady: // else the finding of the service names the worker
		return checkup.Failure("worker "+w.Name, fmt.Sprintf("is not ready (%s)", w.Reason),
			"codex-proxy status; journalctl -u "+w.Unit+" -n 20").Alone()
	case w.Ready && w.ConsecutiveFailures >= manyRestarts:
		return checkup.Warning("worker "+w.Name, fmt.Sprintf("has failed %d times in a row, last exit %s",
			w.ConsecutiveFailures, w.LastExit), "journalctl -u "+w.Unit).Alone()
	}
	return nil
}

// models checks that each worker offers models to clients.
func (r *room) models(context.Context) []checkup.Finding {
	if r.ReportErr != nil {
		return checkup.Unchecked("", "the daemon does not answer", "service").Alone()
	}
	var found []checkup.Finding
	for _, w := range r.Report.Workers {
		subject := "worker " + w.Name
		switch {
		case w.Reason == probes.Standby:
			found = append(found, checkup.Passed(subject, "is a standby: its account is not needed now"))
		case w.Handshake == nil:
			found = append(found, checkup.Unchecked(subject, "it is not connected", "service"))
		case len(w.Handshake.Models) == 0:
			found = append(found, checkup.Failure(subject, "offers no model",
				"see login and codex above, and `model` in "+paths.WorkerSettings+"/"+w.Name+".toml"))
		default:
			found = append(found, checkup.Passed(subject, "offers "+abbreviated(w.Handshake.Models)))
		}
	}
	if len(found) == 0 {
		return checkup.Unchecked("", "the daemon has no worker", "service").Alone()
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
