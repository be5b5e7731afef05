package responses

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/proxy/responses/queue"
	"codex-proxy/proxy/responses/wire"
)

// metrics are the metrics of background responses.
type metrics struct {
	ended   *prometheus.CounterVec
	resumed prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, l *queue.Lanes) *metrics {
	f := promauto.With(registry)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_background_responses_inflight", Help: "Background responses in flight, queued or running.",
	}, func() float64 { return float64(l.Count()) })
	return &metrics{
		ended: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_background_responses_total", Help: "Background responses that have ended, by how.",
		}, []string{"outcome"}), wire.StatusCompleted, wire.StatusIncomplete, wire.StatusFailed,
			wire.StatusCancelled),
		resumed: f.NewCounter(prometheus.CounterOpts{
			Name: "codex_streams_resumed_total", Help: "Streams of background responses that clients have resumed.",
		}),
	}
}
