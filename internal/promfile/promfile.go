// Package promfile keeps a file of metrics for the textfile collector of node exporter, for hosts on which only node
// exporter is scraped.
package promfile

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Every is the longest time between two writes: a file older than four of these
	// has no writer.
	Every = 15 * time.Second
	// Pause is the shortest time between two writes.
	Pause = 200 * time.Millisecond
)

// Writer keeps the file. Create it with New; Changed may be called from any
// goroutine.
type Writer struct {
	path    string
	metrics prometheus.Gatherer
	state   func() []string
	changed chan struct{} // holds a token when the state may have changed
	logger  *slog.Logger

	failing bool // the last write failed, and the log has the error; belongs to Run
}

// New returns a Writer of the metrics to the file at path. A change of state causes a
// write at once.
func New(path string, metrics prometheus.Gatherer, state func() []string, logger *slog.Logger) *Writer {
	return &Writer{path: path, metrics: metrics, state: state, changed: make(chan struct{}, 1), logger: logger}
}

// Changed announces that the state may have changed.
func (w *Writer) Changed() {
	select {
	case w.changed <- struct{}{}:
	default: // the token in the channel covers this change too
	}
}

// Run writes the file at every change of state and every 15 seconds, until ctx
// ends; then it returns nil. The file stays: see Remove.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	var written []string
	for {
		now := w.state()
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

// rest waits for Pause; false means that ctx ended.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Remove removes the file, so that a stopped service does not look dead.
func (w *Writer) Remove() { Remove(w.path, w.logger) }

// Clear leaves an empty file, for a path that a link leads to: a link that leads nowhere
// is an error of node exporter.
func (w *Writer) Clear() {
	if err := os.Truncate(w.path, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.logger.Warn("cannot remove the textfile of node exporter", "path", w.path, "error", err)
	}
}

// Remove removes a file that has no writer.
func Remove(path string, logger *slog.Logger) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("cannot remove the textfile of node exporter", "path", path, "error", err)
	}
}

// write replaces the file by rename. If its directory does not exist there is no
// node exporter, and write does nothing.
func (w *Writer) write() {
	err := prometheus.WriteToTextfile(w.path, w.metrics)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil && !w.failing {
		w.logger.Warn("cannot write the textfile of node exporter", "path", w.path, "error", err)
	}
	w.failing = err != nil
}
