// Package collectors publishes the states of the workers and of their accounts for Prometheus, as they are at the
// moment of the scrape.
package collectors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// reportCollector publishes the report of the probes at the moment of the scrape.
type reportCollector struct {
	report func() probes.Report
	byName map[string]*prometheus.Desc
}

var workerMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(probes.Worker, time.Time) float64
}{
	{"codex_worker_ready", "Whether the worker takes turns.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return metric.Bool(w.Ready) }},
	{"codex_worker_restarts_total", "Automatic restarts by systemd since the proxy started.", prometheus.CounterValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.RestartsTotal) }},
	{"codex_worker_oom_kills_total",
		"Runs of the worker that ended because the kernel killed it for lack of memory, since the proxy started.",
		prometheus.CounterValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.OOMKillsTotal) }},
	{"codex_worker_consecutive_failures", "Restarts in a row since the worker was last healthy.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.ConsecutiveFailures) }},
	{"codex_worker_latency_ms", "Start to ready of the worker's last start, in milliseconds.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return w.StartupLatencyMS }},
	{"codex_worker_backoff_ms", "Time until systemd starts the worker again, in milliseconds; 0 if it does not wait.",
		prometheus.GaugeValue, backoff},
	{"codex_worker_start_limit_hit", "Whether systemd has given the worker up; it stays down until someone resets it.",
		prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return metric.Bool(w.Reason == probes.StartLimitHit) }},
	{"codex_worker_inflight", "Turns in flight on the worker.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.Inflight) }},
	{"codex_worker_drain_seconds", "How long the worker has been draining with turns in flight; 0 if it is not.",
		prometheus.GaugeValue,
		drainAge},
	{"codex_worker_drained", "Whether an operator has drained the worker.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return metric.Bool(w.Drained) }},
}

var queueMetrics = []struct {
	name, help string
	value      func(probes.Queue) float64
}{
	{"codex_queue_depth", "Requests that wait for a place on a worker.",
		func(q probes.Queue) float64 { return float64(q.Depth) }},
	{"codex_queue_limit", "Requests that may wait.", func(q probes.Queue) float64 { return float64(q.Limit) }},
	{"codex_queue_oldest_wait_seconds", "How long the request that has waited longest waits; 0 if none does.",
		func(q probes.Queue) float64 { return q.OldestWaitMS / 1000 }},
}

// NewReport creates the collector of the service's readiness, its queue and its
// workers.
func NewReport(report func() probes.Report) prometheus.Collector {
	c := &reportCollector{report: report, byName: map[string]*prometheus.Desc{}}
	for _, m := range workerMetrics {
		c.byName[m.name] = prometheus.NewDesc(m.name, m.help, []string{"worker"}, nil)
	}
	for _, m := range queueMetrics {
		c.byName[m.name] = prometheus.NewDesc(m.name, m.help, nil, nil)
	}
	c.byName["codex_worker_state"] = prometheus.NewDesc("codex_worker_state",
		"1 for the state that the worker is in, by the reasons that /readyz gives, and 0 for the others.",
		[]string{"worker", "state"}, nil)
	c.byName["codex_worker_connection_age_seconds"] = prometheus.NewDesc("codex_worker_connection_age_seconds",
		"Age of the connection to the worker, from its handshake; absent without one.", []string{"worker"}, nil)
	c.byName["codex_draining"] = prometheus.NewDesc("codex_draining",
		"Whether the service stops, or all workers are drained.", nil, nil)
	c.byName["codex_live"] = prometheus.NewDesc("codex_live", "Whether the service is alive, as /livez says.", nil, nil)
	c.byName["codex_not_ready_seconds_total"] = prometheus.NewDesc("codex_not_ready_seconds_total",
		"Time that the service was not ready, by reason.", []string{"reason"}, nil)
	c.byName["codex_ready"] = prometheus.NewDesc("codex_ready", "Whether the service is ready, as /readyz says.", nil,
		nil)
	return c
}

// Describe implements prometheus.Collector.
func (c *reportCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.byName {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *reportCollector) Collect(out chan<- prometheus.Metric) {
	r, now := c.report(), time.Now()
	out <- prometheus.MustNewConstMetric(c.byName["codex_ready"], prometheus.GaugeValue,
		metric.Bool(r.Health.Readiness.Ready))
	out <- prometheus.MustNewConstMetric(c.byName["codex_live"], prometheus.GaugeValue,
		metric.Bool(r.Health.Liveness.Live))
	out <- prometheus.MustNewConstMetric(c.byName["codex_draining"], prometheus.GaugeValue,
		metric.Bool(r.Health.Readiness.Reason == probes.Draining))
	for _, reason := range probes.Reasons {
		if reason != probes.Ready {
			out <- prometheus.MustNewConstMetric(c.byName["codex_not_ready_seconds_total"], prometheus.CounterValue,
				r.NotReady[reason].Seconds(), string(reason))
		}
	}
	for _, m := range queueMetrics {
		out <- prometheus.MustNewConstMetric(c.byName[m.name], prometheus.GaugeValue, m.value(r.Queue))
	}
	for _, w := range r.Workers {
		c.collectState(out, w, now)
		for _, m := range workerMetrics {
			out <- prometheus.MustNewConstMetric(c.byName[m.name], m.kind, m.value(w, now), w.Name)
		}
	}
}

// collectState publishes the metrics of a worker that have a further label, or that are
// absent at times.
func (c *reportCollector) collectState(out chan<- prometheus.Metric, w probes.Worker, now time.Time) {
	for _, reason := range probes.Reasons {
		if !reason.OfService() {
			out <- prometheus.MustNewConstMetric(c.byName["codex_worker_state"], prometheus.GaugeValue,
				metric.Bool(w.Reason == reason), w.Name, string(reason))
		}
	}
	if w.Handshake != nil {
		out <- prometheus.MustNewConstMetric(c.byName["codex_worker_connection_age_seconds"], prometheus.GaugeValue,
			now.Sub(w.Handshake.At).Seconds(), w.Name)
	}
}

// drainAge is 0 for a worker without turns in flight: such a drain may last as long as
// the operator wants.
func drainAge(w probes.Worker, now time.Time) float64 {
	n := len(w.Transitions)
	if w.Reason != probes.Draining || w.Inflight == 0 || n == 0 || w.Transitions[n-1].Reason != probes.Draining {
		return 0
	}
	return max(0, now.Sub(w.Transitions[n-1].At).Seconds())
}

func backoff(w probes.Worker, now time.Time) float64 {
	if w.NextRestartAt == nil {
		return 0
	}
	return max(0, float64(w.NextRestartAt.Sub(now).Microseconds())/1000)
}
