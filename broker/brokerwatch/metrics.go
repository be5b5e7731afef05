package brokerwatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/modelproxy"
	"codex-proxy/broker/upstream"
	"codex-proxy/internal/metric"
)

// collector publishes the states of brokers, which it reads at the moment of the scrape. Its labels are bounded: kinds
// and reasons are the known ones alone.
type collector struct {
	watch                   *Watch
	requests, failures      *prometheus.Desc
	tokens                  *prometheus.Desc
	connect, tls, firstByte *prometheus.Desc
}

var metrics = metric.Rows[*brokerstate.State]{
	metric.Gauge(ofBroker("codex_model_reachable",
		"0 if the last request of the broker found the model endpoint unreachable."),
		func(s *brokerstate.State) float64 { return metric.Bool(s.Line.Failure == nil || s.Line.Failure.Over) }),
	metric.Gauge(ofBroker("codex_model_connections", "Open connections of the broker to the model endpoint."),
		func(s *brokerstate.State) float64 { return float64(s.Line.Connections) }),
	metric.Gauge(ofBroker("codex_model_sockets",
		"Open WebSockets of long conversations, which codex_model_connections counts as well."),
		func(s *brokerstate.State) float64 { return float64(s.Line.Sockets) }),
	metric.Counter(ofBroker("codex_model_continued_total",
		"Requests of long conversations of which the broker has sent only what was new."),
		func(s *brokerstate.State) float64 { return float64(s.Line.Continued) }),
	metric.Gauge(ofBroker("codex_model_requests_in_flight", "Requests of the broker to the model endpoint in flight."),
		func(s *brokerstate.State) float64 { return float64(s.Streams) }),
	metric.Counter(ofBroker("codex_model_sent_bytes_total", "Bytes that the broker has sent over its connections."),
		func(s *brokerstate.State) float64 { return float64(s.Line.Sent) }),
	metric.Counter(ofBroker("codex_model_received_bytes_total",
		"Bytes that the broker has received over its connections."),
		func(s *brokerstate.State) float64 { return float64(s.Line.Received) }),
}

func ofBroker(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"worker"}, more...), nil)
}

// NewCollector returns the metrics of the brokers.
func NewCollector(w *Watch) prometheus.Collector {
	return &collector{
		watch: w,
		requests: ofBroker("codex_model_requests_total",
			"Requests that codex has sent to the model endpoint through its broker, with those that no client has asked for.",
			"kind"),
		tokens: ofBroker("codex_model_tokens_total",
			"Tokens as the model endpoint counts them, of all requests of codex. Cached ones are a part of the input.",
			"kind", "type"),
		failures: ofBroker("codex_model_unreachable_total",
			"Requests of the broker that have not reached the model endpoint, or whose connection ended before the answer.",
			"reason"),
		connect: ofBroker("codex_model_connect_seconds",
			"Time to make a connection to the model endpoint, with the resolution of its name and without TLS."),
		tls: ofBroker("codex_model_tls_seconds", "Time of the TLS handshake with the model endpoint."),
		firstByte: ofBroker("codex_model_first_byte_seconds",
			"Time from the connection of a request to the first byte of the model endpoint's answer."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.tokens, c.failures, c.connect, c.tls, c.firstByte} {
		out <- d
	}
	metrics.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.watch.read()
	for name, s := range c.watch.own() {
		metrics.Collect(out, s, name)
		count(out, c.requests, name, modelproxy.Kinds, s.Requests)
		spent(out, c.tokens, name, s.Tokens)
		count(out, c.failures, name, upstream.Reasons, s.Line.Failures)
		histogram(out, c.connect, name, &s.Line.Connect)
		histogram(out, c.tls, name, &s.Line.TLS)
		histogram(out, c.firstByte, name, &s.Line.FirstByte)
	}
}

func count[L ~string](
	out chan<- prometheus.Metric, desc *prometheus.Desc, name string, labels []L, n map[string]uint64,
) {
	for _, label := range labels {
		of := float64(n[string(label)])
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, of, name, string(label))
	}
}

func spent(out chan<- prometheus.Metric, desc *prometheus.Desc, name string, all map[string]brokerstate.Tokens) {
	for _, kind := range modelproxy.Kinds {
		t := all[kind]
		for label, n := range map[string]uint64{"input": t.Input, "cached": t.Cached, "output": t.Output} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name, kind, label)
		}
	}
}

func histogram(out chan<- prometheus.Metric, desc *prometheus.Desc, name string, h *brokerstate.Histogram) {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range brokerstate.Bounds {
		sum += h.Buckets[i]
		buckets[bound] = sum
	}
	out <- prometheus.MustNewConstHistogram(desc, h.Count, h.Seconds, buckets, name)
}

// own returns the states of the brokers that have one. Nothing changes a state after it was read.
func (w *Watch) own() map[string]*brokerstate.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]*brokerstate.State{}
	for name, s := range w.states {
		if own := s.own; own != nil {
			all[name] = own
		}
	}
	return all
}
