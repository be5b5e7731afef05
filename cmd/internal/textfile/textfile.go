// Package textfile writes the state of the service for the textfile collector of
// node exporter, for hosts whose only scrape is that one.
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
	// every is the longest time between two writes: a file older than four of these
	// has no writer.
	every = 15 * time.Second
	// pause is the shortest time between two writes.
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

	failing bool // the last write failed, and the log has the error; belongs to Run
}

// New returns a Writer of the report to the file at path. version is the program's.
func New(path, version string, report func() probes.Report, logger *slog.Logger) *Writer {
	w := &Writer{path: path, report: report, registry: prometheus.NewRegistry(),
		changed: make(chan struct{}, 1), logger: logger}
	w.registry.MustRegister(newCollector(version, report))
	return w
}

// Changed announces that the report may have changed.
func (w *Writer) Changed() {
	select {
	case w.changed <- struct{}{}:
	default: // the token in the channel covers this change too
	}
}

// Run writes the file at every change of state and every 15 seconds, until ctx
// ends; then it returns nil. The file stays: see Remove.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var written []string
	for {
		now := stateOf(w.report())
		if written == nil || !slices.Equal(now, written) {
			w.write()
			written = now
		}
		if !rest(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-tick.C:
			written = nil
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

// stateOf is the part of the report whose change causes a write at once.
func stateOf(r probes.Report) []string {
	state := []string{string(r.Health.Readiness.Reason)}
	for _, w := range r.Workers {
		state = append(state, string(w.Reason), w.InvocationID)
	}
	for _, d := range r.Dependencies {
		state = append(state, d.Name, string(d.Reason), d.Since.String())
	}
	return state
}

// Remove removes the file, so that a stopped service does not look dead.
func (w *Writer) Remove() { Remove(w.path, w.logger) }

// Remove removes a file that has no writer.
func Remove(path string, logger *slog.Logger) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("cannot remove the textfile of node exporter", "path", path, "error", err)
	}
}

// write replaces the file by rename. If its directory does not exist there is no
// node exporter, and write does nothing.
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
