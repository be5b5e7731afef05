package bed

import (
	"fmt"
	"slices"
	"time"
)

// Sample is a list of durations, printed as its median, its 99th percentile and its
// maximum.
type Sample []time.Duration

// Quantile is the value below which the share q of the sample lies.
func (s Sample) Quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Slowest is how many times slower than the machine of these figures, which has two
// cores and no other load, a machine of the tests may be. A figure is compared with the
// best of several samples: other work of the machine can only make some of them worse.
const Slowest = 20

// Best is the least value.
func (s Sample) Best() time.Duration { return s.Quantile(0) }

func (s Sample) String() string {
	return fmt.Sprintf("median %s, p99 %s, max %s (n=%d)",
		s.Quantile(0.5).Round(10*time.Microsecond), s.Quantile(0.99).Round(10*time.Microsecond),
		s.Quantile(1).Round(10*time.Microsecond), len(s))
}
