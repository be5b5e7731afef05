package shared

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// newMetrics registers the number of responses in the file.
func newMetrics(registry prometheus.Registerer, b *both) {
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_responses_waiting",
		Help: "Responses and conversations in the file of this host that wait for the database that several hosts " +
			"share; absent without one.",
	}, func() float64 { return float64(b.waiting.Load()) })
}
