package workers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/workers/accounts"
)

// inUseCollector publishes the account in use at the moment of the scrape.
type inUseCollector struct {
	book *accounts.Book
	desc *prometheus.Desc
}

// NewInUseCollector creates the collector of the account in use.
func NewInUseCollector(book *accounts.Book) prometheus.Collector {
	return &inUseCollector{book, prometheus.NewDesc("codex_account_in_use",
		"Whether the account is the one in use; 0 for all unless rotation is \"ordered\".", []string{"account"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *inUseCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *inUseCollector) Collect(out chan<- prometheus.Metric) {
	for _, v := range c.book.Views(time.Now()) {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, metric.Bool(v.InUse), v.Name)
	}
}
