package workers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/workers/accounts"
)

// accountCollector publishes the states of the accounts at the moment of the scrape.
type accountCollector struct {
	pool           *Pool
	state, blocked *prometheus.Desc
}

// NewAccountCollector creates the collector of the states and readings of the pool's accounts.
func NewAccountCollector(p *Pool) prometheus.Collector {
	return &accountCollector{
		pool: p,
		state: prometheus.NewDesc("codex_account_state",
			"Whether the account is in this state.", []string{"account", "state"}, nil),
		blocked: prometheus.NewDesc("codex_account_blocked_seconds_total",
			"Time in which no account had quota, paused ones left out.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *accountCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.blocked
	c.pool.readings.total.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *accountCollector) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	gauge := func(desc *prometheus.Desc, holds bool, labels ...string) {
		value := 0.0
		if holds {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, v := range c.pool.book.Views(now) {
		for _, s := range accounts.States {
			gauge(c.state, v.State == s, v.Name, string(s))
		}
	}
	_, total := c.pool.book.Blocked(now)
	out <- prometheus.MustNewConstMetric(c.blocked, prometheus.CounterValue, total.Seconds())
	c.pool.readings.total.Collect(out)
}
