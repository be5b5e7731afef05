package units

import (
	"math"
	"time"
)

// Ramp is how the delay before a service's automatic restarts grows:
// RestartSec=, RestartSteps= and RestartMaxDelaySec= of systemd.service(5).
type Ramp struct {
	First time.Duration
	Steps uint
	Max   time.Duration // 0: infinity, which means no growth
}

// Delay is the delay before the restart of that number, from 1, as systemd 254
// and later have it: service_restart_usec_next in src/core/service.c.
func (r Ramp) Delay(restart uint32) time.Duration {
	switch {
	case restart <= 1, r.Steps == 0, r.First <= 0, r.First >= r.Max:
		return r.First
	case uint(restart) > r.Steps:
		return r.Max
	}
	growth := math.Pow(float64(r.Max)/float64(r.First), float64(restart-1)/float64(r.Steps))
	return time.Duration(float64(r.First) * growth)
}

// rest is what of that delay is left after RestartSec=.
func (r Ramp) rest(restart uint32) time.Duration { return r.Delay(restart) - r.First }
