package sharing

import (
	"time"

	"codex-proxy/proxy/limits/share"
)

// judge counts what all hosts admit against the limit of one.
type judge struct {
	limit share.Limit
	used  float64
	at    time.Duration
	over  float64
}

func (j *judge) flow(now time.Duration) {
	j.used = max(0, j.used-j.limit.Refill*(now-j.at).Seconds())
	j.at = now
}

func (j *judge) use(now time.Duration) {
	j.flow(now)
	j.used++
	j.over = max(j.over, j.used/j.limit.Most-1)
}

func (j *judge) free() { j.used-- }

// ideal is how many of the requests one host alone admits. The turns of a lost host end with it.
func (p Play) ideal() (admitted int) {
	one := judge{limit: p.Limit}
	var ends []time.Duration
	for _, request := range p.Requests {
		one.flow(request.At)
		left := ends[:0]
		for _, end := range ends {
			if end > request.At {
				left = append(left, end)
			} else {
				one.free()
			}
		}
		ends = left
		if one.used+1 > p.Limit.Most {
			continue
		}
		admitted++
		one.used++
		if p.slots() {
			end := request.At + request.Lasts
			if p.Dies > request.At && p.Dies < end && request.Host == 0 {
				end = p.Dies
			}
			ends = append(ends, end)
		}
	}
	return admitted
}
