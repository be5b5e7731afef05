package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
)

const (
	// shutdownTimeout bounds what is left after the last turn: open probes,
	// error frames, idle connections.
	shutdownTimeout = 2 * time.Second
)

// announce tells systemd of every change until ctx ends. READY=1 is sent when a
// worker is ready, or when none can be expected to become so by itself soon:
// then the status says why.
func (d *Daemon) announce(ctx context.Context) error {
	patience := time.NewTimer(d.cfg.StartTimeout)
	defer patience.Stop()
	impatient, started, said := false, false, ""
	for {
		snap := d.snapshot()
		report := d.tracker.Observe(snap)
		status := statusLine(report) + d.handoff.lastFailure()
		d.server.Catalogue.CheckAliases()
		switch {
		case !started && (impatient || probes.Settled(snap)):
			started = true
			if err := d.takeOver(report); err != nil {
				return err
			}
			d.notifier.Ready(status)
			if d.handoff.predecessor != nil {
				// The watchdog's clock runs on across a reload: many in a row, each
				// before the first pass, would look like silence.
				d.notifier.Ping()
			}
			d.handoff.predecessor.Taken() // before anything that started lets us tell it
			close(d.handoff.started)
		case status != said: // systemd tells the whole bus of every STATUS
			d.notifier.Status(status)
		}
		said = status
		select {
		case <-ctx.Done():
			return nil
		case <-d.changed:
		case <-patience.C:
			impatient = true
		}
	}
}

// statusLine is what `systemctl status` shows.
func statusLine(r probes.Report) string {
	if !r.Health.Readiness.Ready {
		return "Not ready: " + r.Health.Readiness.Details
	}
	ready, drained := 0, []string(nil)
	for _, w := range r.Workers {
		if w.Ready {
			ready++
		}
		if w.Drained {
			drained = append(drained, w.Name)
		}
	}
	line := fmt.Sprintf("Ready: %d of %d workers", ready, len(r.Workers))
	if len(drained) > 0 {
		line += "; drained: " + strings.Join(drained, ", ")
	}
	return line
}

// drain refuses new work, lets turns in flight finish and answers the requests that
// have come, within the grace; it ends what is left with an error that the client
// sees, and closes the server. When systemd is about to start the service again then
// new work is not refused: it waits in the socket for that.
func (d *Daemon) drain(ctx, grace context.Context) {
	grace, cancel := context.WithTimeout(grace, d.cfg.DrainTimeout)
	defer cancel()
	d.pool.AnnounceDrain()
	d.report() // the flip is told before anything else happens
	restarting := d.restarting(grace)
	if !restarting {
		d.pool.Drain()
		d.server.Connections.Refuse()
	}
	d.notifier.Stopping("Stopping: finishing turns in flight") // who reads this is refused, or waits
	d.handoff.pass(handoff.Drain)
	if restarting {
		d.server.Connections.Leave(grace)
	}
	idle := d.awaitIdle(grace)
	for idle && restarting && d.server.Connections.Rest(grace) {
		idle = d.awaitIdle(grace)
	}
	if !idle {
		d.logger.Warn("turns in flight are cut off", "inflight", d.pool.Inflight(), "drain_timeout", d.cfg.DrainTimeout)
		d.server.Abort()
		d.handoff.pass(handoff.Hasten)
	}
	d.close(ctx)
}

// close ends what has no reason to go on.
func (d *Daemon) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := d.server.Shutdown(ctx); err != nil {
		d.logger.Warn("connections were closed by force", "error", err)
	}
	if err := d.control.Shutdown(ctx); err != nil { // last: stops of workers wait on it
		d.logger.Warn("commands were cut off", "error", err)
	}
	if predecessor := d.handoff.last(); predecessor != nil {
		select {
		case <-predecessor:
		case <-ctx.Done():
		}
	}
}

// awaitIdle waits within the grace for the last turn, be it our own or one that
// a predecessor still finishes, and for the last request, which has no turn yet while
// its body comes or its images are fetched. Requests that are refused are not waited
// for: while they keep coming, there may always be one.
func (d *Daemon) awaitIdle(grace context.Context) bool {
	extend := time.NewTicker(notify.ExtendEvery)
	defer extend.Stop()
	d.finishing.Store(true)
	d.notifier.StillStopping(notify.ExtendBy) // also when nothing is left to wait for: what follows must end, too
	for said := ""; ; {
		inflight, requests, predecessor := d.pool.Inflight(), d.server.Connections.Unanswered(), d.handoff.last()
		if inflight == 0 && requests == 0 && predecessor == nil {
			return true
		}
		status := fmt.Sprintf("Stopping: %d turns in flight", inflight)
		if inflight == 0 && requests > 0 {
			status = fmt.Sprintf("Stopping: %d requests to answer", requests)
		}
		if predecessor != nil {
			status += ", and those from before the last reload"
		}
		if status != said { // connections change more often than that
			d.notifier.Status(status)
		}
		said = status
		select {
		case <-grace.Done():
			return false
		case <-d.changed:
		case <-d.server.Connections.Changed():
		case <-predecessor:
		case <-extend.C:
			d.notifier.StillStopping(notify.ExtendBy)
		}
	}
}
