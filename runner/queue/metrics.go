package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
)

type metrics struct {
	refused prometheus.Counter
	wait    prometheus.Histogram
}

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	return &metrics{
		refused: f.NewCounter(prometheus.CounterOpts{Name: "codex_runner_queue_refused_total",
			Help: "Requests for commands that were refused because the queue was full."}),
		wait: f.NewHistogram(metric.Histogram("codex_runner_queue_wait_seconds",
			"Time that a command waited in the queue until its unit was started.",
			.001, .01, .1, 1, 5, 15, 60, 300, 900, 3600)),
	}
}
