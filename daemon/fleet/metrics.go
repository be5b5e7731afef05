package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
)

// metrics are the metrics of the database.
type metrics struct {
	exchanges    *prometheus.CounterVec
	done, failed prometheus.Counter
	onDemand     prometheus.Counter
	gauges       []prometheus.Collector
}

func newMetrics(report func() *probes.Database, keys *auth.Keys) *metrics {
	m := &metrics{exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_database_exchanges_total",
		Help: "Exchanges with the database that several hosts share, one a second, by outcome; absent without one.",
	}, []string{"outcome"}), onDemand: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "codex_database_share_exchanges_total",
		Help: "Exchanges with the database for requests that waited for a share of a limit of their API key, or to " +
			"give one back; absent without one.",
	})}
	m.done, m.failed = m.exchanges.WithLabelValues("done"), m.exchanges.WithLabelValues("failed")
	m.gauges = []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_database_available",
			Help: "Whether the database that several hosts share answers; absent without one.",
		}, func() float64 {
			if report().Away {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_database_keys_age_seconds",
			Help: "Time since the database has confirmed the API keys in force; absent without one.",
		}, func() float64 { return keys.Age().Seconds() }),
	}
	return m
}

func (m *metrics) all() []prometheus.Collector { return append(m.gauges, m.exchanges, m.onDemand) }
