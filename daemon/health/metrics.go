package health

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/probes"
)

// metrics are the metrics of readiness and the watchdog.
type metrics struct {
	flips  *prometheus.CounterVec
	passed atomic.Pointer[time.Time] // the last pass of the watchdog's check, by the monotonic clock
}

// newMetrics registers the metrics. The watchdog's interval is 0 without one.
func newMetrics(registry prometheus.Registerer, watchdog time.Duration) *metrics {
	m := &metrics{}
	m.pass()
	f := promauto.With(registry)
	m.flips = f.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_readiness_flips_total", Help: "Changes of readiness, by the reason they led to.",
	}, []string{"ready", "reason"})
	for _, reason := range probes.Reasons {
		m.flips.WithLabelValues(strconv.FormatBool(reason == probes.Ready), string(reason))
	}
	if watchdog > 0 {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_watchdog_interval_seconds",
			Help: "The longest silence that systemd's watchdog accepts; absent without one.",
		}, watchdog.Seconds)
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_watchdog_margin_seconds",
			Help: "Time that is left until systemd's watchdog would act; absent without one.",
		}, func() float64 { return (watchdog - time.Since(*m.passed.Load())).Seconds() })
	}
	return m
}

func (m *metrics) pass() {
	now := time.Now()
	m.passed.Store(&now)
}
