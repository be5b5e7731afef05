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

// slowest is how many times slower than the machine of these figures, which has two
// cores and no other load, a machine of the tests may be. A figure is compared with the
// best of several samples: other work of the machine can only make some of them worse.
const slowest = 20

func (s sample) best() time.Duration { return s.quantile(0) }

func (s sample) String() string {
	return fmt.Sprintf("median %s, p99 %s, max %s (n=%d)",
		s.quantile(0.5).Round(10*time.Microsecond), s.quantile(0.99).Round(10*time.Microsecond),
		s.quantile(1).Round(10*time.Microsecond), len(s))
}
