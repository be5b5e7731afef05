package runner

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/outcome"
)

// metrics count the events of a Runner. See collector for the state at the moment.
type metrics struct {
	ended     *prometheus.CounterVec // by outcome
	refused   prometheus.Counter
	wait      prometheus.Histogram
	start     prometheus.Histogram
	output    prometheus.Counter
	fetches   *prometheus.CounterVec // by result
	builds    *prometheus.CounterVec // by result
	hits      prometheus.Counter
	evictions *prometheus.CounterVec // by kind
}

// Results of a fetch or a build: values of the label result.
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	words := make([]string, 0, len(outcome.Words()))
	for _, w := range outcome.Words() {
		words = append(words, string(w))
	}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	by := func(label, name, help string, values ...string) *prometheus.CounterVec {
		return metric.Closed(f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}),
			values...)
	}
	return &metrics{
		ended: by("outcome", "codex_runner_commands_ended_total", "Commands that have ended, by how.", words...),
		refused: counter("codex_runner_queue_refused_total",
			"Requests for commands that were refused because the queue was full."),
		wait: f.NewHistogram(metric.Histogram("codex_runner_queue_wait_seconds",
			"Time that a command waited in the queue until its unit was started.",
			.001, .01, .1, 1, 5, 15, 60, 300, 900, 3600)),
		start: f.NewHistogram(metric.Histogram("codex_runner_start_seconds",
			"Time from the start of a unit until its command ran: checkout, environment and sandbox.",
			.025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300)),
		output: counter("codex_runner_output_bytes_total",
			"Output of commands that have ended, as their logs have it."),
		fetches: by("result", "codex_runner_fetches_total", "Fetches of repositories, by result.",
			resultOK, resultFailed),
		builds: by("result", "codex_runner_environment_builds_total", "Builds of environments, by result.",
			resultOK, resultFailed),
		hits: counter("codex_runner_environment_hits_total", "Commands whose environment was built already."),
		evictions: by("kind", "codex_runner_evictions_total",
			"What was removed because nobody had used it for the longest time, to make room.",
			string(EvictedWorkspace), string(EvictedRepository), string(EvictedEnvironment)),
	}
}
