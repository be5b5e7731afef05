package runner

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/environments"
)

// The things that a Runner keeps as long as there is room.
const (
	evictedWorkspace   = "workspace"
	evictedRepository  = "repository"
	evictedEnvironment = "environment"
	evictedSnapshot    = "snapshot"
)

// evictions records the things that were removed to make room.
type evictions struct {
	count  *prometheus.CounterVec // by kind
	logger *slog.Logger
}

// newEvictions registers the metric, unless the registry is nil.
func newEvictions(registry prometheus.Registerer, logger *slog.Logger) evictions {
	return evictions{logger: logger, count: metric.Closed(promauto.With(registry).NewCounterVec(
		prometheus.CounterOpts{Name: "codex_runner_evictions_total",
			Help: "What was removed because nobody had used it for the longest time, to make room."},
		[]string{"kind"}), evictedWorkspace, evictedRepository, evictedEnvironment, evictedSnapshot)}
}

// of returns a function that records the removal of a thing of this kind. name is its key or number, bytes its size.
func (e evictions) of(kind string) func(name string, bytes int64) {
	return func(name string, bytes int64) {
		e.count.WithLabelValues(kind).Inc()
		e.logger.Info("something unused was removed to make room", "kind", kind, "name", name, "bytes", bytes)
	}
}

// environment records the removal of an environment, or of a snapshot.
func (e evictions) environment(key string, snapshot bool, bytes int64) {
	kind := evictedEnvironment
	if snapshot {
		kind = evictedSnapshot
	}
	e.of(kind)(key, bytes)
}

// Snapshots counts what has happened to the snapshots of set-ups since the start, as Snapshots of environments.
func (r *Runner) Snapshots() (hits, misses, removed int64) {
	return environments.Snapshots(r.environments)
}
