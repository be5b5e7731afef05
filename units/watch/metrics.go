package watch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The reasons for reading all properties again: values of the label cause of
// codex_bus_resyncs_total.
const (
	resyncConnect = "connect" // a connection begins
	resyncReexec  = "reexec"  // another systemd owns the name
	resyncReload  = "reload"  // systemd has reloaded its units
	resyncTimer   = "timer"
)

// metrics describe the connection to systemd.
type metrics struct {
	up         prometheus.Gauge
	reconnects prometheus.Counter
	resyncs    *prometheus.CounterVec
	lag        prometheus.Histogram
}

// newMetrics registers them; a nil registry registers none.
func newMetrics(registry prometheus.Registerer, unmanaged bool) *metrics {
	f, managed := promauto.With(registry), promauto.With(registry)
	if unmanaged {
		managed = promauto.With(nil)
	}
	m := &metrics{
		up: managed.NewGauge(prometheus.GaugeOpts{
			Name: "codex_bus_up",
			Help: "Whether systemd is heard over D-Bus; absent where it did not start the service.",
		}),
		reconnects: f.NewCounter(prometheus.CounterOpts{
			Name: "codex_bus_reconnects_total", Help: "Connections to systemd over D-Bus after the first.",
		}),
		resyncs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_bus_resyncs_total",
			Help: "How often the state of all units was read anew, by cause; by timer one after the other.",
		}, []string{"cause"}),
		lag: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "codex_bus_signal_lag_seconds",
			Help:    "Time from a change of a unit, by systemd's clock, to the arrival of its signal.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},

			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
			NativeHistogramMinResetDuration: time.Hour,
		}),
	}
	for _, cause := range []string{resyncConnect, resyncReexec, resyncReload, resyncTimer} {
		m.resyncs.WithLabelValues(cause)
	}
	return m
}
