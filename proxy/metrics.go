package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/probes"
)

// metrics are what the requests move. Labels take their values from closed
// sets: routes of the table, known methods, status codes.
type metrics struct {
	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  prometheus.Gauge
	tokens   *prometheus.CounterVec

	queueWait prometheus.Histogram
	retries   *prometheus.CounterVec
	reuse     *prometheus.CounterVec
}

func newMetrics(s Settings) *metrics {
	f := promauto.With(s.Registry)
	s.Registry.MustRegister(newWorkerCollector(s.Report))
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_requests_total", Help: "HTTP requests that have ended.",
		}, []string{"route", "method", "status"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_errors_total", Help: "HTTP requests that have ended in an error, by its code.",
		}, []string{"route", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "codex_http_request_duration_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"route"}),
		streams: f.NewGauge(prometheus.GaugeOpts{
			Name: "codex_streams_active", Help: "Streamed answers in progress.",
		}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_tokens_total", Help: "Tokens of ended turns as the workers reported them.",
		}, []string{"kind"}),
		queueWait: f.NewHistogram(prometheus.HistogramOpts{
			Name: "codex_queue_wait_seconds", Help: "Time that a turn waited for a place on a worker, whether it got one or not.",
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		retries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_turn_retries_total", Help: "Turns that were lost before the client had anything of them and ran again, by how they were lost.",
		}, []string{"reason"}),
	}
	m.reuse = f.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_thread_reuse_total", Help: "Turns that were begun, by whether they continued a kept thread.",
	}, []string{"result"})
	for _, result := range []string{"hit", "miss"} {
		m.reuse.WithLabelValues(result)
	}
	for _, reason := range lossReasons {
		m.retries.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) observe(method string, x *exchange) {
	m.requests.WithLabelValues(x.route, knownMethod(method), strconv.Itoa(x.status)).Inc()
	if x.status != http.StatusSwitchingProtocols { // its responses are counted one by one
		m.duration.WithLabelValues(x.route).Observe(time.Since(x.began).Seconds())
	}
	if x.outcome != "ok" {
		m.errors.WithLabelValues(x.route, x.outcome).Inc()
	}
	if x.usage != nil {
		m.tokens.WithLabelValues("prompt").Add(float64(x.usage.PromptTokens))
		m.tokens.WithLabelValues("completion").Add(float64(x.usage.CompletionTokens))
	}
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// workerCollector publishes the report that the probes publish, at the moment
// of the scrape.
type workerCollector struct {
	report func() probes.Report
	byName map[string]*prometheus.Desc
}

var workerMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(probes.Worker, time.Time) float64
}{
	{"codex_worker_ready", "Whether the worker takes turns.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return oneIf(w.Ready) }},
	{"codex_worker_restarts_total", "Automatic restarts by systemd since the proxy started.", prometheus.CounterValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.RestartsTotal) }},
	{"codex_worker_consecutive_failures", "Restarts in a row since the worker was last healthy.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.ConsecutiveFailures) }},
	{"codex_worker_latency_ms", "Start to ready of the worker's last start, in milliseconds.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return w.StartupLatencyMS }},
	{"codex_worker_backoff_ms", "Time until systemd starts the worker again, in milliseconds; 0 if it does not wait.", prometheus.GaugeValue,
		backoff},
	{"codex_worker_start_limit_hit", "Whether systemd has given the worker up; it stays down until someone resets it.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return oneIf(w.Reason == probes.StartLimitHit) }},
	{"codex_worker_inflight", "Turns in flight on the worker.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return float64(w.Inflight) }},
	{"codex_worker_drained", "Whether an operator has drained the worker.", prometheus.GaugeValue,
		func(w probes.Worker, _ time.Time) float64 { return oneIf(w.Drained) }},
}

var queueMetrics = []struct {
	name, help string
	value      func(probes.Queue) float64
}{
	{"codex_queue_depth", "Requests that wait for a place on a worker.", func(q probes.Queue) float64 { return float64(q.Depth) }},
	{"codex_queue_limit", "Requests that may wait.", func(q probes.Queue) float64 { return float64(q.Limit) }},
	{"codex_queue_oldest_wait_seconds", "How long the request that has waited longest waits; 0 if none does.",
		func(q probes.Queue) float64 { return q.OldestWaitMS / 1000 }},
}

func newWorkerCollector(report func() probes.Report) *workerCollector {
	c := &workerCollector{report: report, byName: map[string]*prometheus.Desc{}}
	for _, m := range workerMetrics {
		c.byName[m.name] = prometheus.NewDesc(m.name, m.help, []string{"worker"}, nil)
	}
	for _, m := range queueMetrics {
		c.byName[m.name] = prometheus.NewDesc(m.name, m.help, nil, nil)
	}
	c.byName["codex_ready"] = prometheus.NewDesc("codex_ready", "Whether the service is ready, as /readyz says.", nil, nil)
	return c
}

// Describe implements prometheus.Collector.
func (c *workerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.byName {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *workerCollector) Collect(out chan<- prometheus.Metric) {
	r, now := c.report(), time.Now()
	out <- prometheus.MustNewConstMetric(c.byName["codex_ready"], prometheus.GaugeValue, oneIf(r.Health.Readiness.Ready))
	for _, m := range queueMetrics {
		out <- prometheus.MustNewConstMetric(c.byName[m.name], prometheus.GaugeValue, m.value(r.Queue))
	}
	for _, w := range r.Workers {
		for _, m := range workerMetrics {
			out <- prometheus.MustNewConstMetric(c.byName[m.name], m.kind, m.value(w, now), w.Name)
		}
	}
}

func backoff(w probes.Worker, now time.Time) float64 {
	if w.NextRestartAt == nil {
		return 0
	}
	return max(0, milliseconds(w.NextRestartAt.Sub(now)))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
