package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codex-proxy/probes"
)

const (
	// extendBy is how much longer systemd is asked to wait, every extendEvery,
	// while turns in flight are finished (EXTEND_TIMEOUT_USEC, sd_notify(3)).
	extendBy    = 10 * time.Second
	extendEvery = time.Second
	// shutdownTimeout bounds what is left after the last turn: open probes,
	// error frames, idle connections.
	shutdownTimeout = 2 * time.Second
)

// announce tells systemd of every change until ctx ends. READY=1 is sent when a
// worker is ready, or when none can be expected to become so by itself soon:
// then the status says why.
func (d *daemon) announce(ctx context.Context) error {
	patience := time.NewTimer(d.cfg.StartTimeout)
	defer patience.Stop()
	impatient, started, said := false, false, ""
	for {
		snap := d.snapshot()
		status := statusLine(d.tracker.Observe(snap))
		switch {
		case !started && (impatient || probes.Settled(snap)):
			started = true
			d.notifier.Ready(status)
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

// drain refuses new work, lets turns in flight finish within the grace, ends
// what is left with an error that the client sees, and closes the server.
func (d *daemon) drain(ctx context.Context) {
	d.notifier.Stopping("Stopping: finishing turns in flight")
	d.pool.Drain()
	d.report() // the flip is told before anything else happens
	if !d.awaitIdle(ctx) {
		d.logger.Warn("turns in flight are cut off", "inflight", d.pool.Inflight(), "drain_timeout", d.cfg.DrainTimeout)
		d.server.Abort()
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := d.server.Shutdown(ctx); err != nil {
		d.logger.Warn("connections were closed by force", "error", err)
	}
	if err := d.control.Shutdown(ctx); err != nil { // last: stops of workers wait on it
		d.logger.Warn("commands were cut off", "error", err)
	}
}

// awaitIdle waits for the last turn within the grace.
func (d *daemon) awaitIdle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DrainTimeout)
	defer cancel()
	extend := time.NewTicker(extendEvery)
	defer extend.Stop()
	for d.pool.Inflight() > 0 {
		d.notifier.ExtendTimeout(extendBy)
		d.notifier.Status(fmt.Sprintf("Stopping: %d turns in flight", d.pool.Inflight()))
		select {
		case <-ctx.Done():
			return false
		case <-d.changed:
		case <-extend.C:
		}
	}
	return true
}
