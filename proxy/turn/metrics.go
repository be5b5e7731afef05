package turn

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
	"codex-proxy/workers/dispatch"
)

type metrics struct {
	queueWait    prometheus.Histogram
	queueRefused *prometheus.CounterVec
	turns        *prometheus.CounterVec
	retries      *prometheus.CounterVec
	rotations    *prometheus.CounterVec
	reuse        *prometheus.CounterVec
}

// newMetrics registers the metrics; names are the workers' names.
func newMetrics(registry prometheus.Registerer, names []string) *metrics {
	f := promauto.With(registry)
	return &metrics{
		queueWait: f.NewHistogram(metric.Histogram("codex_queue_wait_seconds",
			"Time that a turn waited for a place on a worker, whether it got one or not.",
			.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300)),
		queueRefused: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_queue_refused_total", Help: "Turns that got no place on a worker, by why.",
		}, []string{"reason"}), refusals...),
		turns: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_turns_total",
			Help: "Turns that were begun on a worker and have ended, by outcome; lost ones may have run again, rotated ones have.",
		}, []string{"outcome"}), outcomes...),
		retries: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_turn_retries_total",
			Help: "Turns that were lost before the client had any output and ran again, by how they were lost.",
		}, []string{"reason"}), lossReasons...),
		rotations: rotations(f, names),
		reuse: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_thread_reuse_total", Help: "Turns that were begun, by whether they continued a kept thread.",
		}, []string{"outcome"}), "hit", "miss"),
	}
}

// refusals are why a turn got no place; "ended" is the end of the request itself while
// it waited.
var refusals = []string{"draining", "queue_full", "busy", "not_ready", "no_model", "exhausted", "ended"}

func refusal(err error) string {
	var exhausted *dispatch.ExhaustedError
	switch {
	case errors.As(err, &exhausted):
		return "exhausted"
	case errors.Is(err, dispatch.ErrDraining):
		return "draining"
	case errors.Is(err, dispatch.ErrQueueFull):
		return "queue_full"
	case errors.Is(err, dispatch.ErrBusy):
		return "busy"
	case errors.Is(err, dispatch.ErrNoModel):
		return "no_model"
	case errors.Is(err, dispatch.ErrNotReady):
		return "not_ready"
	default:
		return "ended"
	}
}

var outcomes = []string{"completed", "failed", "cancelled", "lost", "rotated"}

// outcome is how an attempt ended: a lost one is no fault of the request, a cancelled
// one ended because the request did, and a rotated one runs on another account.
func outcome(ctx context.Context, err error, end ending) string {
	switch {
	case err == nil:
		return "completed"
	case ctx.Err() != nil, errors.Is(err, ErrClientGone):
		return "cancelled"
	case end.lost != "":
		return "lost"
	case end.again:
		return "rotated"
	default:
		return "failed"
	}
}

// observe ends the span of an attempt, and counts it.
func (t *run) observe(ctx context.Context, err error, end ending) {
	outcome := outcome(ctx, err, end)
	t.metrics.turns.WithLabelValues(outcome).Inc()
	if t.Codexes != nil && outcome != "cancelled" {
		var crash any
		if end.lost == lostWorker {
			crash = t.lease.Conn
		}
		// Several requests may have one id of the client, and several turns are of one request.
		t.Codexes.Ended(t.lease.Worker, t.Arrived.UnixNano(), codexFault(err), crash)
	}
	endSpan(t.span, t.Name, t.Report, outcome)
	t.span = nil
}
