package environments

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
)

type metrics struct {
	builds *prometheus.CounterVec // by result
	hits   prometheus.Counter
}

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	return &metrics{
		builds: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{Name: "codex_runner_environment_builds_total",
			Help: "Builds of environments, by result."}, []string{"result"}), "ok", "failed"),
		hits: f.NewCounter(prometheus.CounterOpts{Name: "codex_runner_environment_hits_total",
			Help: "Commands whose environment was built already."}),
	}
}

// record counts a build, and writes its event to the journal, where internal/journal explains it.
func (e *Environments) record(t *task, took time.Duration, failure error) {
	if failure != nil {
		e.metrics.builds.WithLabelValues("failed").Inc()
		e.Logger.Warn("an environment could not be built", "environment", t.key, "provider", t.provider, "took", took,
			"error", failure)
		return
	}
	e.metrics.builds.WithLabelValues("ok").Inc()
	e.Logger.Info("an environment was built", "environment", t.key, "provider", t.provider, "took", took)
}
