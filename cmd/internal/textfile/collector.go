package textfile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/probes"
)

// The names differ from those of /metrics: a scraper of both would count twice.
var ofService = []struct {
	desc  *prometheus.Desc
	value func(probes.Report) float64
}{
	{prometheus.NewDesc("codex_textfile_ready", "Whether the service is ready, as /readyz says.", nil, nil),
		func(r probes.Report) float64 { return oneIf[r.Health.Readiness.Ready] }},
	{prometheus.NewDesc("codex_textfile_draining", "Whether the service stops, or all workers are drained.", nil, nil),
		func(r probes.Report) float64 { return oneIf[r.Health.Readiness.Reason == probes.Draining] }},
	{prometheus.NewDesc("codex_textfile_state_since_timestamp_seconds",
		"When readiness or its reason last changed.", nil, nil),
		func(r probes.Report) float64 { return seconds(r.Health.Readiness.LastChangeAt) }},
	{prometheus.NewDesc("codex_textfile_queue_depth", "Requests that wait for a place on a worker.", nil, nil),
		func(r probes.Report) float64 { return float64(r.Queue.Depth) }},
}

var ofWorkers = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(probes.Worker) float64
}{
	{byWorker("codex_textfile_worker_ready", "Whether the worker takes turns."), prometheus.GaugeValue,
		func(w probes.Worker) float64 { return oneIf[w.Ready] }},
	{byWorker("codex_textfile_worker_restarts_total", "Automatic restarts by systemd since the proxy started."),
		prometheus.CounterValue,
		func(w probes.Worker) float64 { return float64(w.RestartsTotal) }},
	{byWorker("codex_textfile_worker_start_limit_hit", "Whether systemd has given the worker up."),
		prometheus.GaugeValue,
		func(w probes.Worker) float64 { return oneIf[w.Reason == probes.StartLimitHit] }},
	{byWorker("codex_textfile_worker_inflight", "Turns in flight on the worker."), prometheus.GaugeValue,
		func(w probes.Worker) float64 { return float64(w.Inflight) }},
}

var ofDependencies = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(probes.Dependency) float64
}{
	{byDependency("codex_textfile_dependency_ready", "Whether the dependency is ready: its unit is active."),
		prometheus.GaugeValue,
		func(d probes.Dependency) float64 { return oneIf[d.Ready] }},
	{byDependency("codex_textfile_dependency_restarts_total",
		"Automatic restarts of the dependency by systemd since the proxy started."), prometheus.CounterValue,
		func(d probes.Dependency) float64 { return float64(d.RestartsTotal) }},
	{byDependency("codex_textfile_dependency_state_since_timestamp_seconds",
		"When the state of the dependency last changed."), prometheus.GaugeValue,
		func(d probes.Dependency) float64 { return max(0, seconds(d.Since)) }}, // 0: systemd has not reported it
}

var dependencyState = byDependency("codex_textfile_dependency_state",
	"1 for the state that the dependency is in, and 0 for the others.", "state")

func byDependency(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"dependency"}, more...), nil)
}

func byWorker(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"worker"}, nil)
}

// collector collects the content of the file when it is written.
type collector struct {
	info, written *prometheus.Desc
	version       string
	report        func() probes.Report
}

func newCollector(version string, report func() probes.Report) *collector {
	return &collector{
		info: prometheus.NewDesc("codex_textfile_info", "Always 1; the label is the version.",
			[]string{"version"}, nil),
		written: prometheus.NewDesc("codex_textfile_written_timestamp_seconds",
			"When this was written: every 15 seconds at least, unless the proxy is dead or hangs.", nil, nil),
		version: version, report: report,
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.info
	out <- c.written
	for _, m := range ofService {
		out <- m.desc
	}
	for _, m := range ofWorkers {
		out <- m.desc
	}
	for _, m := range ofDependencies {
		out <- m.desc
	}
	out <- dependencyState
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.report()
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, c.version)
	out <- prometheus.MustNewConstMetric(c.written, prometheus.GaugeValue, seconds(time.Now()))
	for _, m := range ofService {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(r))
	}
	for _, w := range r.Workers {
		for _, m := range ofWorkers {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(w), w.Name)
		}
	}
	for _, d := range r.Dependencies {
		collectDependency(out, d)
	}
}

func collectDependency(out chan<- prometheus.Metric, d probes.Dependency) {
	for _, m := range ofDependencies {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(d), d.Name)
	}
	for _, reason := range probes.DependencyReasons {
		out <- prometheus.MustNewConstMetric(dependencyState, prometheus.GaugeValue, oneIf[d.Reason == reason], d.Name,
			string(reason))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

var oneIf = map[bool]float64{true: 1}
