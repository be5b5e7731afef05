package fetch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcomes are the values of the label outcome.
var outcomes = []string{"ok", CodeURL, CodeAddress, CodeFailed, CodeSize, CodeType, codeUnavailable, codeOverloaded}

// newFetches has each outcome from the start.
func newFetches(registry prometheus.Registerer) *prometheus.CounterVec {
	fetches := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "codex_image_fetches_total",
		Help: "Images fetched for clients, by outcome: ok, or the code of the error.",
	}, []string{"outcome"})
	for _, outcome := range outcomes {
		fetches.WithLabelValues(outcome)
	}
	return fetches
}
