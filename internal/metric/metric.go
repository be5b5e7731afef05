// Package metric has functions with which several rooms publish metrics for Prometheus.
package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Histogram describes a histogram with classic buckets for every scraper, and native
// buckets with a resolution of a tenth for scrapers that request them. The number of
// native buckets is bounded.
func Histogram(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// Closed creates the series of every value of the only label of c, and returns c: a
// rate of events that never happened is 0 and not absent.
func Closed(c *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

// Bool is 1 if b is true, else 0.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
