package units

import (
	"math"
	"time"
)

// restartDelays are the growing delays before a service's automatic restarts:
// RestartSec=, RestartSteps= and RestartMaxDelaySec= of systemd.service(5).
type restartDelays struct {
	first time.Duration
	steps uint
	max   time.Duration // 0: infinity, which means no growth
}

// before is the delay before the restart of that number, from 1, as systemd 254
// and later compute it: service_restart_usec_next in src/core/service.c.
func (d restartDelays) before(restart uint32) time.Duration {
	switch {
	case restart <= 1, d.steps == 0, d.first <= 0, d.first >= d.max:
		return d.first
	case uint(restart) > d.steps:
		return d.max
	}
	growth := math.Pow(float64(d.max)/float64(d.first), float64(restart-1)/float64(d.steps))
	return time.Duration(float64(d.first) * growth)
}

// rest is the rest of that delay after RestartSec=.
func (d restartDelays) rest(restart uint32) time.Duration { return d.before(restart) - d.first }
