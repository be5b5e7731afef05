package reload

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the reloads since the service started, over all of its processes.
type Metrics struct {
	done, failed atomic.Uint64
	took         prometheus.Gauge
}

// Reloads is the state of Metrics that a successor takes over.
type Reloads struct {
	// Handoffs and FailedHandoffs are the numbers of reloads.
	Handoffs       uint64 `json:"handoffs"`
	FailedHandoffs uint64 `json:"failed_handoffs"`
	// HandoffBegan is the time at which this reload was requested.
	HandoffBegan time.Time `json:"handoff_began,omitzero"`
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, predecessor *Predecessor) *Metrics {
	m := &Metrics{}
	f := promauto.With(registry)
	for outcome, n := range map[string]*atomic.Uint64{"done": &m.done, "failed": &m.failed} {
		f.NewCounterFunc(prometheus.CounterOpts{
			Name:        "codex_handoffs_total",
			Help:        "Reloads since the service started, by whether the new process took over.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(n.Load()) })
	}
	m.took = f.NewGauge(prometheus.GaugeOpts{
		Name: "codex_handoff_last_seconds",
		Help: "How long the last reload took, from its request until this process served " +
			"in place of the one before; 0 if this one followed none.",
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_predecessor_active", Help: "Whether the process before the last reload still finishes its turns.",
	}, func() float64 {
		if predecessor.Running() != nil {
			return 1
		}
		return 0
	})
	return m
}

// Failed counts a reload that has changed nothing.
func (m *Metrics) Failed() { m.failed.Add(1) }

// Save returns the state for the successor of the reload that is under way since began.
func (m *Metrics) Save(began time.Time) Reloads {
	return Reloads{Handoffs: m.done.Load() + 1, FailedHandoffs: m.failed.Load(), HandoffBegan: began}
}

// Restore takes over the state of the predecessor.
func (m *Metrics) Restore(r Reloads) {
	m.done.Store(r.Handoffs)
	m.failed.Store(r.FailedHandoffs)
	if !r.HandoffBegan.IsZero() { // another version may not send it
		m.took.Set(max(0, time.Since(r.HandoffBegan).Seconds()))
	}
}
