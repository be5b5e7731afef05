package bed

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// RampSteps is how many starts the limit admits: the first one and 14 restarts.
	RampSteps = 15
	// A restart takes a tenth of a second beyond its delay, and systemd's timers are
	// accurate to 250 ms. A busy machine makes some of them later.
	rampMost    = 5 * time.Second // half of them
	rampLongest = 20 * time.Second
)

// Ramp are the delays of RestartSec=100ms RestartSteps=6 RestartMaxDelaySec=10s,
// systemd.service(5): a geometric series, and then its last value.
func Ramp() []time.Duration {
	delays := []time.Duration{100, 215, 464, 1000, 2154, 4641}
	for len(delays) < RampSteps-1 {
		delays = append(delays, 10_000)
	}
	for i := range delays {
		delays[i] *= time.Millisecond
	}
	return delays
}

// AssertLate asserts that restarts follow the ramp.
func AssertLate(b *Bed, late Sample) {
	b.T.Helper()
	assert.Less(b.T, late.Quantile(0.5), rampMost, "%v", []time.Duration(late))
	assert.Less(b.T, late.Quantile(1), rampLongest, "%v", []time.Duration(late))
}

// StartsIn reads the times of starts from a file with an uptime in each line.
func StartsIn(b *Bed, file string) (starts []time.Duration) {
	b.T.Helper()
	data, err := b.ReadFile(file)
	require.NoError(b.T, err)
	for line := range strings.Lines(string(data)) {
		uptime, _, _ := strings.Cut(line, " ")
		at, err := time.ParseDuration(uptime + "s")
		require.NoError(b.T, err)
		starts = append(starts, at)
	}
	return starts
}
