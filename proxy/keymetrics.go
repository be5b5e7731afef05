package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
)

// keyCollector publishes the limits of the keys and what counts against them, at
// the moment of the scrape. Names of keys are the operator's: a closed set.
type keyCollector struct {
	limiter              *limiter
	limit, used, refused *prometheus.Desc
}

func newKeyCollector(l *limiter) *keyCollector {
	labels := []string{"key", "limit"}
	return &keyCollector{
		limiter: l,
		limit:   prometheus.NewDesc("codex_key_limit", "Limits of API keys.", labels, nil),
		used:    prometheus.NewDesc("codex_key_used", "What counts against the limit of an API key now.", labels, nil),
		refused: prometheus.NewDesc("codex_key_refused_total", "Requests refused because of a limit of their API key.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *keyCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.limit
	out <- c.used
	out <- c.refused
}

// Collect implements prometheus.Collector.
func (c *keyCollector) Collect(out chan<- prometheus.Metric) {
	for _, key := range c.limiter.keys.All() {
		used, refused := c.limiter.uses(key.Name, key.Limits)
		for limit, n := range used {
			out <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(key.Limits.Number(limit)), key.Name, limit)
			out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, n, key.Name, limit)
		}
		for limit, n := range refused {
			out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, n, key.Name, limit)
		}
	}
}
