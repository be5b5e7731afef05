package follow

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of a Follower.
type metrics struct {
	held  *atomic.Bool
	backs prometheus.Counter
	all   []prometheus.Collector
}

func newMetrics() metrics {
	m := metrics{held: &atomic.Bool{}, backs: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "codex_copies_backs_total", Help: "Ways back to the codex before, because turns on a new one failed.",
	})}
	m.all = []prometheus.Collector{m.backs, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_copies_held", Help: "1 while the codex that is installed is held back: it has failed.",
	}, func() float64 {
		if m.held.Load() {
			return 1
		}
		return 0
	})}
	return m
}

// Metrics are the collectors of the follower.
func (m metrics) Metrics() []prometheus.Collector { return m.all }
