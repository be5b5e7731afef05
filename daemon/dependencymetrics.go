package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// dependencyCollector publishes the dependencies of the report at the moment of the scrape.
type dependencyCollector struct {
	report func() probes.Report
	state  *prometheus.Desc
}

var dependencyMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(probes.Dependency, time.Time) float64
}{
	{ofDependency("codex_dependency_ready", "Whether the dependency is ready: its unit is active."),
		prometheus.GaugeValue, func(d probes.Dependency, _ time.Time) float64 { return metric.Bool(d.Ready) }},
	{ofDependency("codex_dependency_ready_since_seconds", "How long the dependency has been ready; 0 if it is not."),
		prometheus.GaugeValue, readySince},
	{ofDependency("codex_dependency_restarts_total",
		"Automatic restarts of the dependency by systemd since the proxy started."),
		prometheus.CounterValue, func(d probes.Dependency, _ time.Time) float64 { return float64(d.RestartsTotal) }},
	{ofDependency("codex_dependency_required_by", "Units whose settings require the dependency."),
		prometheus.GaugeValue, func(d probes.Dependency, _ time.Time) float64 { return float64(len(d.RequiredBy)) }},
}

func ofDependency(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"dependency"}, nil)
}

func newDependencyCollector(report func() probes.Report) prometheus.Collector {
	return &dependencyCollector{report: report, state: prometheus.NewDesc("codex_dependency_state",
		"1 for the state that the dependency is in, and 0 for the others.", []string{"dependency", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *dependencyCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	for _, m := range dependencyMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *dependencyCollector) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for _, d := range c.report().Dependencies {
		for _, m := range dependencyMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(d, now), d.Name)
		}
		for _, reason := range probes.DependencyReasons {
			out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, metric.Bool(d.Reason == reason),
				d.Name, string(reason))
		}
	}
}

func readySince(d probes.Dependency, now time.Time) float64 {
	if !d.Ready || d.Since.IsZero() {
		return 0
	}
	return max(0, now.Sub(d.Since).Seconds())
}
