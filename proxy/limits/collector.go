package limits

import (
	"github.com/prometheus/client_golang/prometheus"
)

// keyCollector publishes the limits of the keys and their use at the moment of the
// scrape. The names of keys are a closed set: the operator's.
type keyCollector struct {
	limiter              *Limiter
	limit, used, refused *prometheus.Desc
}

// NewCollector creates the collector of the limits of the keys.
func NewCollector(l *Limiter) prometheus.Collector {
	labels := []string{"key", "limit"}
	return &keyCollector{
		limiter: l,
		limit:   prometheus.NewDesc("codex_key_limit", "Limits of API keys.", labels, nil),
		used:    prometheus.NewDesc("codex_key_used", "What counts against the limit of an API key now.", labels, nil),
		refused: prometheus.NewDesc("codex_key_refused_total",
			"Requests refused because of a limit of their API key.", labels, nil),
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
			out <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(key.Limits.Number(limit)),
				key.Name, limit)
			out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, n, key.Name, limit)
		}
		for limit, n := range refused {
			out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, n, key.Name, limit)
		}
	}
}

var memoryBytes = prometheus.NewDesc("codex_request_memory_bytes",
	"Bytes that requests hold: bodies as they come and decoded, "+
		"images, stored conversations, and answers that are not sent yet.", nil, nil)

// Describe implements prometheus.Collector.
func (m *Memory) Describe(out chan<- *prometheus.Desc) { out <- memoryBytes }

// Collect implements prometheus.Collector.
func (m *Memory) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(memoryBytes, prometheus.GaugeValue, float64(m.Bytes()))
}
