package integration

import (
	"fmt"
	"slices"
	"time"
)

// sample is a list of durations, printed as its median, its 99th percentile and its
// maximum.
type sample []time.Duration

func (s sample) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// slower is how many times longer a worker has just taken to start than on the machine
// of these figures, which has two cores and no other load; at least 1.
func (b *bed) slower() time.Duration {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "restart", workerUnit)
	r, _ := b.until("ready", ready)
	took := time.Duration(r.Workers[0].StartupLatencyMS) * time.Millisecond
	times := max(1, took/(100*time.Millisecond))
	b.t.Logf("the worker starts in %s: figures are taken %d times", took, times)
	return times
}

func (s sample) String() string {
	return fmt.Sprintf("median %s, p99 %s, max %s (n=%d)",
		s.quantile(0.5).Round(10*time.Microsecond), s.quantile(0.99).Round(10*time.Microsecond),
		s.quantile(1).Round(10*time.Microsecond), len(s))
}
