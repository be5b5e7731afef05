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
