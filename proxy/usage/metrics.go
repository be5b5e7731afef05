package usage

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are those of a Store.
type metrics struct {
	requests, tokens  *prometheus.CounterVec
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

func (m *metrics) add(key, model string, c Counts) {
	m.requests.WithLabelValues(key, model).Add(float64(c.Requests))
	for _, t := range []struct {
		kind string
		n    int64
	}{
		{"input", c.InputTokens}, {"cached", c.CachedTokens},
		{"output", c.OutputTokens}, {"reasoning", c.ReasoningTokens},
	} {
		m.tokens.WithLabelValues(key, model, t.kind).Add(float64(max(0, t.n)))
	}
}
