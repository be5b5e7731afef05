package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"codex-proxy/internal/fault"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
)

// health is the one report that everything publishes, and the proof of life behind it.
type health struct {
	pool    *workers.Pool
	tracker *probes.Tracker
	metrics *metrics
	changed func() // the report has changed
	// dependencies are the dependencies of the report.
	dependencies func() []probes.Dependency
	remotes      func() []probes.Remote // of the report
	logger       *slog.Logger

	loops []func(context.Context) error // each returns when its loop has made a pass
	stuck atomic.Pointer[string]        // the findings of the last pass; nil: nothing
}

func (h *health) report() probes.Report { return h.tracker.Observe(h.snapshot()) }

// handled is report on the goroutine of an HTTP handler.
func (h *health) handled() probes.Report {
	fault.Point("handler")
	return h.report()
}

// snapshot is the state of the workers and of this process.
func (h *health) snapshot() probes.Snapshot {
	snap := h.pool.Snapshot()
	snap.Dependencies, snap.Remotes = h.dependencies(), h.remotes()
	if stuck := h.stuck.Load(); stuck != nil {
		snap.Stuck = *stuck
	}
	return snap
}

// flipped logs and counts a change of readiness.
func (h *health) flipped(f probes.Flip) {
	level := slog.LevelInfo
	if !f.Ready {
		level = slog.LevelWarn
	}
	ready := fmt.Sprint(f.Ready)
	h.metrics.flips.WithLabelValues(ready, string(f.Reason)).Inc()
	h.logger.Log(context.Background(), level, "readiness changed", "readiness", ready, "reason", string(f.Reason),
		"elapsed_ms", f.Elapsed.Milliseconds(), "details", f.Details)
}

// busChanged logs and publishes whether systemd can be followed over D-Bus.
func (h *health) busChanged(up bool, err error) {
	fault.Point("watcher") // this is the watcher's goroutine
	switch {
	case up:
		h.logger.Info("systemd is heard over D-Bus")
	case errors.Is(err, units.ErrNoBus):
		h.logger.Warn("no system bus here: readiness follows the handshake alone, and nobody restarts a worker")
	default:
		h.logger.Warn("systemd cannot be heard over D-Bus: connected workers stay ready", "error", err)
	}
	h.pool.BusChanged(up, err)
}
