package usage

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of a Store.
type metrics struct {
	requests, tokens  *prometheus.CounterVec
	served, processed *prometheus.CounterVec // by account: requests, tokens
	dropped, failures prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_usage_requests_total",
			Help: "Requests for which a turn was begun, by API key and model; without a key the label is empty.",
		}, []string{"key", "model"}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_usage_tokens_total",
			Help: "Tokens that the workers reported, by API key and model. " +
				"Cached are part of input, reasoning part of output.",
		}, []string{"key", "model", "kind"}),
		served: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_usage_account_requests_total",
			Help: "Requests for which a turn was begun, by the account that served them.",
		}, []string{"account"}),
		processed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_usage_account_tokens_total",
			Help: "Tokens that the workers reported, by account. Cached are part of input, reasoning part of output.",
		}, []string{"account", "kind"}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "codex_usage_dropped_total",
			Help: "Requests that are missing in the usage database because it could not be written for too long.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "codex_usage_write_failures_total",
			Help: "Failed tries to write the usage database; what was not written is tried again.",
		}),
	}
}

// add counts by key and model, and by account: all three together would make too many series.
func (m *metrics) add(key, model string, shares []Share) {
	sum := Total(shares)
	m.requests.WithLabelValues(key, model).Add(float64(sum.Requests))
	for kind, n := range sum.kinds {
		m.tokens.WithLabelValues(key, model, kind).Add(float64(n))
	}
	for _, share := range shares {
		if share.Account == "" {
			continue
		}
		m.served.WithLabelValues(share.Account).Add(float64(share.Requests))
		for kind, n := range share.kinds {
			m.processed.WithLabelValues(share.Account, kind).Add(float64(n))
		}
	}
}

// kinds yields the label of each kind of tokens, and their number.
func (c Counts) kinds(yield func(string, int64) bool) {
	_ = yield("input", max(0, c.InputTokens)) && yield("cached", max(0, c.CachedTokens)) &&
		yield("output", max(0, c.OutputTokens)) && yield("reasoning", max(0, c.ReasoningTokens))
}
