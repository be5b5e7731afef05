package credentials

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/workers/accounts"
)

// metrics count the loans of logins to remotes.
type metrics struct {
	loans    *prometheus.CounterVec
	switches *prometheus.CounterVec
	holders  *prometheus.Desc
}

func newMetrics(store *accounts.Store) *metrics {
	m := &metrics{
		loans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_account_loans_total",
			Help: "Times that the login of the account was lent to a remote.",
		}, []string{"account"}),
		switches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_account_remote_switches_total",
			Help: "Times that a remote got another account, by the account that it left and the reason.",
		}, []string{"from", "reason"}),
		holders: prometheus.NewDesc("codex_account_remotes", "Remotes that use the account.", []string{"account"}, nil),
	}
	for _, v := range store.Views(time.Now()) {
		m.loans.WithLabelValues(v.Name)
		for _, reason := range switchReasons {
			m.switches.WithLabelValues(v.Name, reason)
		}
	}
	return m
}

// Describe implements prometheus.Collector.
func (b *Broker) Describe(out chan<- *prometheus.Desc) {
	b.metrics.loans.Describe(out)
	b.metrics.switches.Describe(out)
	out <- b.metrics.holders
}

// Collect implements prometheus.Collector.
func (b *Broker) Collect(out chan<- prometheus.Metric) {
	b.metrics.loans.Collect(out)
	b.metrics.switches.Collect(out)
	holders := b.server.Holders()
	for _, v := range b.store.Views(time.Now()) {
		out <- prometheus.MustNewConstMetric(b.metrics.holders, prometheus.GaugeValue, float64(len(holders[v.Name])),
			v.Name)
	}
}
