package metric

import "github.com/prometheus/client_golang/prometheus"

// Row is a metric that every thing of a kind has, such as every worker.
type Row[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

// Gauge is a row that may go up and down.
func Gauge[T any](desc *prometheus.Desc, value func(T) float64) Row[T] {
	return Row[T]{desc, prometheus.GaugeValue, value}
}

// Counter is a row that only goes up.
func Counter[T any](desc *prometheus.Desc, value func(T) float64) Row[T] {
	return Row[T]{desc, prometheus.CounterValue, value}
}

// Rows are the metrics of things of a kind, at the moment of a scrape.
type Rows[T any] []Row[T]

// Describe sends the descriptions.
func (r Rows[T]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range r {
		out <- m.desc
	}
}

// Collect sends the metrics of one thing, with its labels.
func (r Rows[T]) Collect(out chan<- prometheus.Metric, thing T, labels ...string) {
	for _, m := range r {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(thing), labels...)
	}
}

// CollectState sends 1 for the state that the thing called name is in, and 0 for the others.
func CollectState[S ~string](out chan<- prometheus.Metric, desc *prometheus.Desc, name string, is S, all []S) {
	for _, state := range all {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, Bool(is == state), name, string(state))
	}
}
