package stored

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func newFailures(registry prometheus.Registerer) prometheus.Counter {
	return promauto.With(registry).NewCounter(prometheus.CounterOpts{
		Name: "codex_response_write_failures_total",
		Help: "Failed tries to write the database of responses, or to open it, every ten seconds; " +
			"absent where none are kept.",
	})
}
