package textfile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// The names differ from the names in /metrics: a scraper of both would count twice.
var ofService = metric.Rows[probes.Report]{
	metric.Gauge(prometheus.NewDesc("codex_textfile_ready",
		"Whether the service is ready, as /readyz says.", nil, nil),
		func(r probes.Report) float64 { return metric.Bool(r.Health.Readiness.Ready) }),
	metric.Gauge(prometheus.NewDesc("codex_textfile_draining",
		"Whether the service stops, or all workers are drained.", nil, nil),
		func(r probes.Report) float64 { return metric.Bool(r.Health.Readiness.Reason == probes.Draining) }),
	metric.Gauge(prometheus.NewDesc("codex_textfile_state_since_timestamp_seconds",
		"When readiness or its reason last changed.", nil, nil),
		func(r probes.Report) float64 { return seconds(r.Health.Readiness.LastChangeAt) }),
	metric.Gauge(prometheus.NewDesc("codex_textfile_queue_depth",
		"Requests that wait for a place on a worker.", nil, nil),
		func(r probes.Report) float64 { return float64(r.Queue.Depth) }),
}

var ofWorkers = metric.Rows[probes.Worker]{
	metric.Gauge(byWorker("codex_textfile_worker_ready", "Whether the worker takes turns."),
		func(w probes.Worker) float64 { return metric.Bool(w.Ready) }),
	metric.Counter(byWorker("codex_textfile_worker_restarts_total",
		"Automatic restarts by systemd since the proxy started."),
		func(w probes.Worker) float64 { return float64(w.RestartsTotal) }),
	metric.Gauge(byWorker("codex_textfile_worker_start_limit_hit", "Whether systemd has given the worker up."),
		func(w probes.Worker) float64 { return metric.Bool(w.Reason == probes.StartLimitHit) }),
	metric.Gauge(byWorker("codex_textfile_worker_inflight", "Turns in flight on the worker."),
		func(w probes.Worker) float64 { return float64(w.Inflight) }),
}

var ofDependencies = metric.Rows[probes.Dependency]{
	metric.Gauge(byDependency("codex_textfile_dependency_ready",
		"Whether the dependency is ready: its unit is active."),
		func(d probes.Dependency) float64 { return metric.Bool(d.Ready) }),
	metric.Counter(byDependency("codex_textfile_dependency_restarts_total",
		"Automatic restarts of the dependency by systemd since the proxy started."),
		func(d probes.Dependency) float64 { return float64(d.RestartsTotal) }),
	metric.Gauge(byDependency("codex_textfile_dependency_state_since_timestamp_seconds",
		"When the state of the dependency last changed."),
		func(d probes.Dependency) float64 { return max(0, seconds(d.Since)) }), // 0: systemd has not reported it
}

var dependencyState = byDependency("codex_textfile_dependency_state",
	"1 for the state that the dependency is in, and 0 for the others.", "state")

var ofRemotes = metric.Rows[probes.Remote]{
	metric.Gauge(byRemote("codex_textfile_remote_ready", "Whether the remote is ready: its unit is active."),
		func(r probes.Remote) float64 { return metric.Bool(r.Ready) }),
	metric.Counter(byRemote("codex_textfile_remote_restarts_total",
		"Automatic restarts of the remote by systemd since the proxy started."),
		func(r probes.Remote) float64 { return float64(r.RestartsTotal) }),
	metric.Counter(byRemote("codex_textfile_remote_not_ready_seconds_total",
		"Time since the proxy started in which the remote was to run, and was not ready."),
		func(r probes.Remote) float64 { return r.NotReady.Seconds() }),
}

var ofRemoteUse = metric.Rows[*probes.RemoteUse]{
	metric.Gauge(byRemote("codex_textfile_remote_turns", "Turns of the remote that run, or wait for a person."),
		func(u *probes.RemoteUse) float64 { return float64(u.Turns) }),
	metric.Gauge(byRemote("codex_textfile_remote_approval_waiting_since_timestamp_seconds",
		"Since when a turn waits for a person with no owner attached; 0 if none does."),
		func(u *probes.RemoteUse) float64 { return max(0, seconds(u.AloneSince)) }),
	metric.Counter(byRemote("codex_textfile_remote_turns_continued_total",
		"Turns that went on after an end of codex, since the remote was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.Continued) }),
	metric.Counter(byRemote("codex_textfile_remote_turns_given_up_total",
		"Turns that did not go on, because they had as often as continue_limit allows, since the remote was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.GivenUp) }),
	metric.Counter(byRemote("codex_textfile_remote_switches_total",
		"Changes of the remote to another account, since it was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.Switches) }),
}

var (
	remoteState = byRemote("codex_textfile_remote_state",
		"1 for the state that the remote is in, and 0 for the others.",
		"state")
	remoteAttached = byRemote("codex_textfile_remote_attached", "Clients that are attached to the remote.", "role")
)

func byRemote(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"remote"}, more...), nil)
}

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
	ofService.Describe(out)
	ofWorkers.Describe(out)
	ofDependencies.Describe(out)
	out <- dependencyState
	ofRemotes.Describe(out)
	ofRemoteUse.Describe(out)
	out <- remoteState
	out <- remoteAttached
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.report()
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, c.version)
	out <- prometheus.MustNewConstMetric(c.written, prometheus.GaugeValue, seconds(time.Now()))
	ofService.Collect(out, r)
	for _, w := range r.Workers {
		ofWorkers.Collect(out, w, w.Name)
	}
	for _, d := range r.Dependencies {
		ofDependencies.Collect(out, d, d.Name)
		metric.CollectState(out, dependencyState, d.Name, d.Reason, probes.DependencyReasons)
	}
	for _, remote := range r.Remotes {
		collectRemote(out, remote)
	}
}

func collectRemote(out chan<- prometheus.Metric, r probes.Remote) {
	ofRemotes.Collect(out, r, r.Name)
	metric.CollectState(out, remoteState, r.Name, r.Reason, probes.RemoteReasons)
	if r.Use == nil { // the remote has not run yet while the proxy did
		return
	}
	ofRemoteUse.Collect(out, r.Use, r.Name)
	for role, n := range map[string]int{"owner": r.Use.Owners, "viewer": r.Use.Viewers} {
		out <- prometheus.MustNewConstMetric(remoteAttached, prometheus.GaugeValue, float64(n), r.Name, role)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
