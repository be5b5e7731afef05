// Package health has the one report that everything publishes, and the proof of life behind WATCHDOG=1 and /livez.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/fault"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
)

// Settings configure Health.
type Settings struct {
	Pool         *workers.Pool
	Dependencies func() []probes.Dependency // of the report
	Remotes      func() []probes.Remote     // of the report
	Brokers      func() []probes.Broker     // of the report
	Database     func() *probes.Database    // of the report; nil: there is none
	Changed      func()                     // the report has changed
	Watchdog     time.Duration              // the interval of the service manager's watchdog; 0 without one
	Registry     prometheus.Registerer
	Logger       *slog.Logger
}

// Health is the health of this process.
type Health struct {
	settings Settings
	tracker  *probes.Tracker
	metrics  *metrics

	loops []func(context.Context) error // each returns when its loop has made a pass
	stuck atomic.Pointer[string]        // the findings of the last pass; nil: nothing
}

// New returns the health of a process that starts.
func New(s Settings) *Health {
	h := &Health{settings: s, metrics: newMetrics(s.Registry, s.Watchdog)}
	h.tracker = probes.NewTracker(time.Now(), h.flipped)
	return h
}

// Require makes a loop part of the proof of life: alive returns when the loop has made a pass. It is for the time
// before Watch.
func (h *Health) Require(alive func(context.Context) error) { h.loops = append(h.loops, alive) }

// Report is the report of this moment.
func (h *Health) Report() probes.Report { return h.tracker.Observe(h.snapshot()) }

// Handled is Report on the goroutine of an HTTP handler.
func (h *Health) Handled() probes.Report {
	fault.Point("handler")
	return h.Report()
}

// Look is the report of this moment, and whether readiness will not change by itself soon.
func (h *Health) Look() (report probes.Report, settled bool) {
	snap := h.snapshot()
	return h.tracker.Observe(snap), probes.Settled(snap)
}

// snapshot is the state of the workers and of this process.
func (h *Health) snapshot() probes.Snapshot {
	snap := h.settings.Pool.Snapshot()
	snap.Dependencies, snap.Remotes = h.settings.Dependencies(), h.settings.Remotes()
	snap.Brokers = h.settings.Brokers()
	if h.settings.Database != nil {
		snap.Database = h.settings.Database()
	}
	if stuck := h.stuck.Load(); stuck != nil {
		snap.Stuck = *stuck
	}
	return snap
}

// flipped logs and counts a change of readiness.
func (h *Health) flipped(f probes.Flip) {
	level := slog.LevelInfo
	if !f.Ready {
		level = slog.LevelWarn
	}
	ready := fmt.Sprint(f.Ready)
	h.metrics.flips.WithLabelValues(ready, string(f.Reason)).Inc()
	h.settings.Logger.Log(context.Background(), level, "readiness changed", "readiness", ready, "reason",
		string(f.Reason),
		"elapsed_ms", f.Elapsed.Milliseconds(), "details", f.Details)
}

// BusChanged logs and publishes whether systemd can be followed over D-Bus.
func (h *Health) BusChanged(up bool, err error) {
	fault.Point("watcher") // this is the watcher's goroutine
	switch {
	case up:
		h.settings.Logger.Info("systemd is heard over D-Bus")
	case errors.Is(err, units.ErrNoBus):
		h.settings.Logger.Warn("no system bus here: readiness follows the handshake alone, and nobody restarts a worker")
	default:
		h.settings.Logger.Warn("systemd cannot be heard over D-Bus: connected workers stay ready", "error", err)
	}
	h.settings.Pool.BusChanged(up, err)
}
