package dependencies

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// collector publishes the dependencies of the report at the moment of the scrape.
type collector struct {
	report func() probes.Report
	state  *prometheus.Desc
}

var metrics = metric.Rows[probes.Dependency]{
	metric.Gauge(ofDependency("codex_dependency_ready", "Whether the dependency is ready: its unit is active."),
		func(d probes.Dependency) float64 { return metric.Bool(d.Ready) }),
	metric.Gauge(ofDependency("codex_dependency_ready_since_seconds",
		"How long the dependency has been ready; 0 if it is not."),
		func(d probes.Dependency) float64 { return readySince(d, time.Now()) }),
	metric.Counter(ofDependency("codex_dependency_restarts_total",
		"Automatic restarts of the dependency by systemd since the proxy started."),
		func(d probes.Dependency) float64 { return float64(d.RestartsTotal) }),
	metric.Gauge(ofDependency("codex_dependency_required_by", "Units whose settings require the dependency."),
		func(d probes.Dependency) float64 { return float64(len(d.RequiredBy)) }),
}

func ofDependency(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"dependency"}, nil)
}

// NewCollector returns the metrics of the dependencies of the report.
func NewCollector(report func() probes.Report) prometheus.Collector {
	return &collector{report: report, state: prometheus.NewDesc("codex_dependency_state",
		"1 for the state that the dependency is in, and 0 for the others.", []string{"dependency", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	metrics.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, d := range c.report().Dependencies {
		metrics.Collect(out, d, d.Name)
		metric.CollectState(out, c.state, d.Name, d.Reason, probes.DependencyReasons)
	}
}

func readySince(d probes.Dependency, now time.Time) float64 {
	if !d.Ready || d.Since.IsZero() {
		return 0
	}
	return max(0, now.Sub(d.Since).Seconds())
}
