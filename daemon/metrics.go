package daemon

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/probes"
)

// metrics are the metrics of the process, readiness, hand-offs and watchdog.
type metrics struct {
	flips    *prometheus.CounterVec
	handoffs struct{ done, failed atomic.Uint64 }
	took     prometheus.Gauge
	passed   atomic.Pointer[time.Time] // the last pass of the watchdog's check, by the monotonic clock
}

// metricsSettings holds the values that metrics report in addition to their own counts.
type metricsSettings struct {
	version  string
	active   func() bool   // a predecessor runs
	watchdog time.Duration // the interval; 0 without a watchdog
}

// newMetrics registers the metrics.
func newMetrics(registry prometheus.Registerer, settings metricsSettings) *metrics {
	m := &metrics{}
	m.pass()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registry)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_proxy_build_info", Help: "Always 1; the label is the version.",
		ConstLabels: prometheus.Labels{"version": settings.version},
	}, func() float64 { return 1 })
	m.flips = f.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_readiness_flips_total", Help: "Changes of readiness, by the reason they led to.",
	}, []string{"ready", "reason"})
	for _, reason := range probes.Reasons {
		m.flips.WithLabelValues(strconv.FormatBool(reason == probes.Ready), string(reason))
	}
	for outcome, n := range map[string]*atomic.Uint64{"done": &m.handoffs.done, "failed": &m.handoffs.failed} {
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
		if settings.active() {
			return 1
		}
		return 0
	})
	if interval := settings.watchdog; interval > 0 {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_watchdog_interval_seconds",
			Help: "The longest silence that systemd's watchdog accepts; absent without one.",
		}, interval.Seconds)
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "codex_watchdog_margin_seconds",
			Help: "Time that is left until systemd's watchdog would act; absent without one.",
		}, func() float64 { return (interval - time.Since(*m.passed.Load())).Seconds() })
	}
	return m
}

func (m *metrics) pass() {
	now := time.Now()
	m.passed.Store(&now)
}
