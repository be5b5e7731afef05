package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/metric"
)

// metrics are the metrics of requests. Labels take their values from closed sets: routes of the table, known methods,
// status codes.
type metrics struct {
	requests  *prometheus.CounterVec
	errors    *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	ends      *prometheus.CounterVec
	tokens    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_requests_total", Help: "HTTP requests that have ended.",
		}, []string{"route", "method", "status"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_http_errors_total", Help: "HTTP requests that have ended in an error, by its code.",
		}, []string{"route", "code"}),
		duration: f.NewHistogramVec(metric.Histogram("codex_http_request_duration_seconds",
			"Time from a request's header to the end of its answer.",
			.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600), []string{"route"}),
		firstByte: f.NewHistogramVec(metric.Histogram("codex_http_first_byte_seconds",
			"Time from a request's header to the first byte of its answer, on a WebSocket to the first output of a "+
				"response, of requests that named a model; not of answers without a turn, such as counts of tokens.",
			.025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120), []string{"route"}),
		ends: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_stream_ends_total", Help: "Streamed answers that had begun and have ended, by why.",
		}, []string{"cause"}), streamCauses...),
		tokens: metric.Closed(f.NewCounterVec(prometheus.CounterOpts{
			Name: "codex_tokens_total",
			Help: "Tokens of ended turns as the workers reported them. Cached are part of input, reasoning part of output.",
		}, []string{"kind"}), "input", "cached", "output", "reasoning"),
	}
}

func (m *metrics) observe(method string, x *Exchange) {
	m.requests.WithLabelValues(x.Route, knownMethod(method), strconv.Itoa(x.Status)).Inc()
	if x.Status != http.StatusSwitchingProtocols { // its responses are counted one by one
		m.duration.WithLabelValues(x.Route).Observe(time.Since(x.Began).Seconds())
	}
	turned := x.Turn.Attempts > 0 || x.Outcome != "ok"
	if x.Model != "" && turned && !x.FirstByte.IsZero() {
		m.firstByte.WithLabelValues(x.Route).Observe(x.FirstByte.Sub(x.Began).Seconds())
	}
	if x.Stream && x.Status == http.StatusOK {
		m.ends.WithLabelValues(streamCause(x.Outcome)).Inc()
	}
	if x.Outcome != "ok" {
		m.errors.WithLabelValues(x.Route, x.Outcome).Inc()
	}
	m.count(x)
}

// count counts the tokens of an exchange.
func (m *metrics) count(x *Exchange) {
	if u := x.Turn.Usage; u != nil {
		m.tokens.WithLabelValues("input").Add(float64(u.InputTokens))
		m.tokens.WithLabelValues("cached").Add(float64(u.CachedInputTokens))
		m.tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
		m.tokens.WithLabelValues("reasoning").Add(float64(u.ReasoningOutputTokens))
	}
}

var streamCauses = []string{
	"finished", "client_gone", "slow_client", "idle_timeout", "request_timeout", "draining", "worker_exited", "error",
}

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

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	default:
		return "other"
	}
}
