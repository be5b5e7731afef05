package workers

import (
	"github.com/prometheus/client_golang/prometheus"
)

// rateLimitCollector publishes the limits of the workers' accounts at the moment of the
// scrape. Codex reports at most two windows for an account.
type rateLimitCollector struct {
	accounts    func() []Account
	used, reset *prometheus.Desc
}

// NewRateLimitCollector creates the collector of the accounts, which Pool.Accounts
// returns.
func NewRateLimitCollector(accounts func() []Account) prometheus.Collector {
	labels := []string{"worker", "window"}
	return &rateLimitCollector{
		accounts: accounts,
		used: prometheus.NewDesc("codex_worker_rate_limit_used_ratio",
			"How much of the limit of the worker's account is used up in the window, from 0 to 1; "+
				"absent where there is none or it is not known.", labels, nil),
		reset: prometheus.NewDesc("codex_worker_rate_limit_reset_timestamp_seconds",
			"When the window of that limit ends.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *rateLimitCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.used
	out <- c.reset
}

// Collect implements prometheus.Collector.
func (c *rateLimitCollector) Collect(out chan<- prometheus.Metric) {
	for _, a := range c.accounts() {
		for _, l := range a.Limits { // each length once
			out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, l.UsedRatio, a.Worker, l.Window)
			if !l.ResetsAt.IsZero() {
				out <- prometheus.MustNewConstMetric(c.reset, prometheus.GaugeValue, float64(l.ResetsAt.Unix()),
					a.Worker, l.Window)
			}
		}
	}
}
