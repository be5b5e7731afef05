package collectors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/workers/accounts"
)

// accountCollector publishes the states of the accounts at the moment of the scrape. Codex
// reports at most two windows for an account.
type accountCollector struct {
	store                              *accounts.Store
	state, inUse, blocked, used, reset *prometheus.Desc
}

// NewAccounts creates the collector of the states of the accounts.
func NewAccounts(store *accounts.Store) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &accountCollector{
		store: store,
		state: desc("codex_account_state", "Whether the account is in this state.", "account", "state"),
		inUse: desc("codex_account_in_use",
			"Whether the account is the one in use; 0 for all unless rotation is \"ordered\".", "account"),
		blocked: desc("codex_account_blocked_seconds_total",
			"Time in which no account had quota, paused ones left out."),
		used: desc("codex_worker_rate_limit_used_ratio",
			"How much of the limit of the worker's account is used up in the window, from 0 to 1; "+
				"absent where there is none or it is not known.", "worker", "window"),
		reset: desc("codex_worker_rate_limit_reset_timestamp_seconds",
			"When the window of that limit ends.", "worker", "window"),
	}
}

// Describe implements prometheus.Collector.
func (c *accountCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.state, c.inUse, c.blocked, c.used, c.reset} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *accountCollector) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, v := range c.store.Views(now) {
		for _, s := range accounts.States {
			gauge(c.state, metric.Bool(v.State == s), v.Name, string(s))
		}
		gauge(c.inUse, metric.Bool(v.InUse), v.Name)
		for _, l := range v.Limits(now) { // each length once
			gauge(c.used, l.UsedRatio, v.Name, l.Window)
			if !l.ResetsAt.IsZero() {
				gauge(c.reset, float64(l.ResetsAt.Unix()), v.Name, l.Window)
			}
		}
	}
	_, total := c.store.Blocked(now)
	out <- prometheus.MustNewConstMetric(c.blocked, prometheus.CounterValue, total.Seconds())
}
