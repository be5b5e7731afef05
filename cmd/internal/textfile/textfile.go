// Package textfile leaves the state of the service where the textfile collector
// of node exporter reads it, for hosts whose only scrape is that one.
package textfile

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
)

const (
	// every is how often the file is written at least: a scraper that finds it
	// older than four of these knows that nobody writes it any more.
	every = 15 * time.Second
	// pause bounds how often changes are written.
	pause = 200 * time.Millisecond
)

// Writer keeps the file. Create it with New; Changed may be called from any
// goroutine.
type Writer struct {
	path     string
	report   func() probes.Report
	registry *prometheus.Registry
	changed  chan struct{} // holds a token when the report may have changed
	logger   *slog.Logger

	failing bool // and the log has told of it; Run's
}

// New describes the file at path, which says what report does. version is the
// program's.
func New(path, version string, report func() probes.Report, logger *slog.Logger) *Writer {
	w := &Writer{path: path, report: report, registry: prometheus.NewRegistry(), changed: make(chan struct{}, 1), logger: logger}
	w.registry.MustRegister(newCollector(version, report))
	return w
}

// Changed tells that the report may be another one now.
func (w *Writer) Changed() {
	select {
	case w.changed <- struct{}{}:
	default: // a token that nobody has taken yet covers this change too
	}
}

// Run writes the file at every change of state and every 15 seconds, until ctx
// ends; then it returns nil. The file stays: see Remove.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var said []string
	for {
		now := stateOf(w.report())
		if said == nil || !slices.Equal(now, said) {
			w.write()
			said = now
		}
		if !rest(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-tick.C:
			said = nil
		}
	}
}

// rest waits for pause; false means that ctx ended.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stateOf is what is worth a write before its time.
func stateOf(r probes.Report) []string {
	state := []string{string(r.Health.Readiness.Reason)}
	for _, w := range r.Workers {
		state = append(state, string(w.Reason), w.InvocationID)
	}
	return state
}

// Remove takes the file away: a service that was stopped is not one that is dead.
func (w *Writer) Remove() { Remove(w.path, w.logger) }

// Remove takes a file away that nobody writes any more.
func Remove(path string, logger *slog.Logger) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("cannot remove the textfile of node exporter", "path", path, "error", err)
	}
}

// write replaces the file by rename. Without its directory there is no node
// exporter, and nothing to do.
func (w *Writer) write() {
	err := prometheus.WriteToTextfile(w.path, w.registry)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil && !w.failing {
		w.logger.Warn("cannot write the textfile of node exporter", "path", w.path, "error", err)
	}
	w.failing = err != nil
}
