package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/proxy/workers"
)

// metrics are what the requests move. Labels take their values from closed
// sets: routes of the table, known methods, status codes.
type metrics struct {
	requests  *prometheus.CounterVec
	errors    *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	streams   prometheus.Gauge
	ends      *prometheus.CounterVec
	tokens    *prometheus.CounterVec

	queueWait    prometheus.Histogram
	queueRefused *prometheus.CounterVec
	turns        *prometheus.CounterVec
	retries      *prometheus.CounterVec
	reuse        *prometheus.CounterVec
}

func newMetrics(s Settings) *metrics {
	f := promauto.With(s.Registry)
	s.Registry.MustRegister(newWorkerCollector(s.Report), newRateLimitCollector(s.Pool.Accounts))
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_requests_total", Help: "HTTP requests that have ended.",
		}, []string{"route", "method", "status"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_errors_total", Help: "HTTP requests that have ended in an error, by its code.",
		}, []string{"route", "code"}),
		duration: f.NewHistogramVec(histogram("codex_http_request_duration_seconds",
			"Time from a request's header to the end of its answer.",
			.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600), []string{"route"}),
		firstByte: f.NewHistogramVec(histogram("codex_http_first_byte_seconds",
			"Time from a request's header to the first byte of its answer, of requests that named a model.",
			.025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120), []string{"route"}),
		streams: f.NewGauge(prometheus.GaugeOpts{
			Name: "codex_streams_active", Help: "Streamed answers in progress.",
		}),
		ends: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_stream_ends_total", Help: "Streamed answers that had begun and have ended, by why.",
		}, []string{"cause"}), streamCauses...),
		tokens: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_tokens_total", Help: "Tokens of ended turns as the workers reported them. Cached are part of input, reasoning part of output.",
		}, []string{"kind"}), "input", "cached", "output", "reasoning"),
		queueWait: f.NewHistogram(histogram("codex_queue_wait_seconds",
			"Time that a turn waited for a place on a worker, whether it got one or not.",
			.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)),
		queueRefused: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_queue_refused_total", Help: "Turns that got no place on a worker, by why.",
		}, []string{"reason"}), refusals...),
		turns: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_turns_total", Help: "Turns that were begun on a worker and have ended, by outcome; lost ones may have run again.",
		}, []string{"outcome"}), turnOutcomes...),
		retries: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_turn_retries_total", Help: "Turns that were lost before the client had anything of them and ran again, by how they were lost.",
		}, []string{"reason"}), lossReasons...),
		reuse: closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_thread_reuse_total", Help: "Turns that were begun, by whether they continued a kept thread.",
		}, []string{"outcome"}), "hit", "miss"),
	}
	return m
}

// histogram has classic buckets for every scraper, and native ones for those
// that ask for them: resolution of a tenth, in a bounded number of buckets.
func histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// closed has each value of the only label from the start: a rate of what has
// never happened is 0 and not absent.
func closed(c *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func (m *metrics) observe(method string, x *exchange) {
	m.requests.WithLabelValues(x.route, knownMethod(method), strconv.Itoa(x.status)).Inc()
	if x.status != http.StatusSwitchingProtocols { // its responses are counted one by one
		m.duration.WithLabelValues(x.route).Observe(time.Since(x.began).Seconds())
	}
	if x.model != "" && !x.firstByte.IsZero() {
		m.firstByte.WithLabelValues(x.route).Observe(x.firstByte.Sub(x.began).Seconds())
	}
	if x.stream && x.status == http.StatusOK {
		m.ends.WithLabelValues(streamCause(x.outcome)).Inc()
	}
	if x.outcome != "ok" {
		m.errors.WithLabelValues(x.route, x.outcome).Inc()
	}
	if u := x.usage; u != nil {
		m.tokens.WithLabelValues("input").Add(float64(u.PromptTokens))
		m.tokens.WithLabelValues("cached").Add(float64(u.PromptTokensDetails.CachedTokens))
		m.tokens.WithLabelValues("output").Add(float64(u.CompletionTokens))
		m.tokens.WithLabelValues("reasoning").Add(float64(u.CompletionTokensDetails.ReasoningTokens))
	}
}

var streamCauses = []string{"finished", "client_gone", "slow_client", "idle_timeout", "request_timeout", "draining", "worker_exited", "error"}

// streamCause is why a stream that had begun has ended.
func streamCause(outcome string) string {
	switch outcome {
	case "ok":
		return "finished"
	case "client_gone", "slow_client", "idle_timeout", "request_timeout", "draining", "worker_exited":
		return outcome
	default:
		return "error"
	}
}

// refusals are why a turn got no place; ended is that of the request itself, while
// it waited.
var refusals = []string{"draining", "queue_full", "busy", "not_ready", "no_model", "ended"}

func refusal(err error) string {
	switch {
	case errors.Is(err, workers.ErrDraining):
		return "draining"
	case errors.Is(err, workers.ErrQueueFull):
		return "queue_full"
	case errors.Is(err, workers.ErrBusy):
		return "busy"
	case errors.Is(err, workers.ErrNoModel):
		return "no_model"
	case errors.Is(err, workers.ErrNotReady):
		return "not_ready"
	default:
		return "ended"
	}
}

var turnOutcomes = []string{"completed", "failed", "cancelled", "lost"}

// turnOutcome is what has become of a turn: lost ones are no fault of the
// request, cancelled ones ended because the request did.
func turnOutcome(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "completed"
	case ctx.Err() != nil, errors.Is(err, errClientGone):
		return "cancelled"
	case lossReason(err) != "":
		return "lost"
	default:
		return "failed"
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
