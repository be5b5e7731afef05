package environments

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/environment"
)

type metrics struct {
	builds *prometheus.CounterVec // by result
	hits   prometheus.Counter
	// Of snapshots, since the start of the service.
	snapshotHits, snapshotMisses, snapshotsRemoved atomic.Int64
}

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	m := &metrics{
		builds: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{Name: "codex_runner_environment_builds_total",
			Help: "Builds of environments and of snapshots, by result."}, []string{"result"}), "ok", "failed"),
		hits: f.NewCounter(prometheus.CounterOpts{Name: "codex_runner_environment_hits_total",
			Help: "Commands whose environment was built already."}),
	}
	for _, c := range []struct {
		name, help string
		count      *atomic.Int64
	}{
		{"codex_runner_snapshot_hits_total", "Sessions whose snapshot was there already.", &m.snapshotHits},
		{"codex_runner_snapshot_misses_total", "Sessions for which the set-up of their repository ran.", &m.snapshotMisses},
	} {
		f.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 { return float64(c.count.Load()) })
	}
	return m
}

// began records that a session begins with a snapshot, which was built for it or was there.
func (m *metrics) began(built bool) {
	if built {
		m.snapshotMisses.Add(1)
	} else {
		m.snapshotHits.Add(1)
	}
}

// Snapshots counts the uses and removals of snapshots since the start of the service.
func (m *metrics) Snapshots() (hits, misses, removed int64) {
	return m.snapshotHits.Load(), m.snapshotMisses.Load(), m.snapshotsRemoved.Load()
}

// evicted records that an environment was removed to make room, and tells it.
func (m *metrics) evicted(t *task, tell func(key string, snapshot bool, bytes int64)) {
	snapshot := t.provider == environment.Setup
	if snapshot {
		m.snapshotsRemoved.Add(1)
	}
	tell(t.key, snapshot, t.bytes)
}

// record counts a build, and writes its event to the journal, where internal/journal explains it.
func (e *Environments) record(t *task, took time.Duration, failure error) {
	if failure != nil {
		e.metrics.builds.WithLabelValues("failed").Inc()
		e.Logger.Warn("an environment could not be built", "environment", t.key, "provider", t.provider, "took", took,
			"error", WithoutOutput(failure.Error()))
		return
	}
	e.metrics.builds.WithLabelValues("ok").Inc()
	e.Logger.Info("an environment was built", "environment", t.key, "provider", t.provider, "took", took)
}
