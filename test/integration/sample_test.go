package integration

import (
	"fmt"
	"slices"
	"time"
)

// sample is a list of durations that is told by its median, its 99th
// percentile and its largest.
type sample []time.Duration

func (s sample) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (s sample) String() string {
	return fmt.Sprintf("median %s, p99 %s, max %s (n=%d)",
		s.quantile(0.5).Round(10*time.Microsecond), s.quantile(0.99).Round(10*time.Microsecond), s.quantile(1).Round(10*time.Microsecond), len(s))
}
