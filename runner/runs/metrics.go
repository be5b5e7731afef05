package runs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/store"
)

type metrics struct {
	ended  *prometheus.CounterVec // by outcome
	start  prometheus.Histogram
	output prometheus.Counter
}

// newMetrics registers the metrics, unless the registry is nil.
func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	words := make([]string, 0, len(outcome.Words()))
	for _, w := range outcome.Words() {
		words = append(words, string(w))
	}
	return &metrics{
		ended: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{Name: "codex_runner_commands_ended_total",
			Help: "Commands that have ended, by how."}, []string{"outcome"}), words...),
		start: f.NewHistogram(metric.Histogram("codex_runner_start_seconds",
			"Time from the start of a unit until its command ran: checkout, environment and sandbox.",
			.025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300)),
		output: f.NewCounter(prometheus.CounterOpts{Name: "codex_runner_output_bytes_total",
			Help: "Output of commands that have ended, as their logs have it."}),
	}
}

// The next methods write events to the journal, where internal/journal explains each message, and count them.
// CODEX_SESSION, CODEX_COMMAND and CODEX_UNIT of the journal are the attributes session, command and unit.

// recordStarted records that a command runs.
func (r *Runs) recordStarted(c *run) {
	if !c.begun.IsZero() {
		r.metrics.start.Observe(time.Since(c.begun).Seconds())
	}
	r.Logger.Info("a command has started", "session", c.Session, "command", c.Number, "unit", c.unit)
}

// recordEnded records the end of a command, which may have waited in the queue all the time.
func (r *Runs) recordEnded(k queue.Key, unit string, e store.Ending) {
	r.metrics.ended.WithLabelValues(string(e.Outcome.Word)).Inc()
	r.metrics.output.Add(float64(e.Usage.Output))
	r.Logger.Info("a command has ended", "session", k.Session, "command", k.Number, "unit", unit,
		"outcome", string(e.Outcome.Word), "text", environments.WithoutOutput(e.Outcome.Text), "invocation", e.Invocation)
}
