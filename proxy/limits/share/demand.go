package share

import (
	"math"
	"time"
)

// window is the time over which a demand is measured.
const window = 2 * float64(Period) / float64(time.Second)

// demand is how much clients ask for in a second, of late.
type demand struct {
	sum float64
	at  time.Time
}

func (d *demand) add(n float64, now time.Time) {
	d.sum = d.rate(now)*window + n
	d.at = now
}

func (d *demand) rate(now time.Time) float64 {
	if d.sum == 0 {
		return 0
	}
	return d.sum / window * math.Exp(-max(0, now.Sub(d.at).Seconds())/window)
}

// partOf is the part of a host in the demand of all hosts.
func partOf(own, all float64) float64 {
	if all <= own {
		return 1
	}
	return own / all
}

// pause is how long an ask does not help after the pool had too little: until the host's part of the refill is a unit.
func pause(hosts int, refill float64) time.Duration {
	least := max(Gap, time.Duration(hosts)*gapPerHost)
	if refill > 0 {
		least = max(least, time.Duration(min(1, 1/refill)*float64(time.Second)))
	}
	return min(least, Period)
}
