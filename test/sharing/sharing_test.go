package sharing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/limits/share"
	"codex-proxy/test/nightly"
)

const (
	mostOver = 0.02
	leastUse = 0.97
)

// fleets are the numbers of hosts.
func fleets() []int {
	if nightly.Is() {
		return []int{3, 1000}
	}
	return []int{3}
}

// play runs each load, below and beyond the limit.
func play(t *testing.T, limit share.Limit, rate float64, lasts time.Duration, check func(t *testing.T, r Result)) {
	for _, hosts := range fleets() {
		for _, load := range Loads {
			for _, times := range []float64{0.9, 3} {
				t.Run(fmt.Sprintf("%d hosts, %s, %v", hosts, load.Name, times), func(t *testing.T) {
					p := Play{Hosts: hosts, Limit: limit, Seed: 1,
						Requests: load.Requests(hosts, times*rate, 5*time.Minute, lasts, 1)}
					if load.Dies {
						p.Dies = 100 * time.Second
					}
					r := p.Run()
					t.Logf("used %.4f, over %.4f, %d of %d waited, at most %v, %.1f exchanges a host and second",
						r.Used(), r.Over, r.Waited, len(p.Requests), r.Longest, float64(r.Exchanges)/300/float64(hosts))
					check(t, r)
				})
			}
		}
	}
}

func within(t *testing.T, r Result) {
	assert.LessOrEqual(t, r.Over, mostOver)
	assert.GreaterOrEqual(t, r.Used(), leastUse)
	assert.LessOrEqual(t, r.Longest, rounds*patience)
}

// Requests of a minute: never more than the limit and 2 %, and nearly all of it can be used.
func TestRates(t *testing.T) {
	for _, minute := range []float64{600, 6000} {
		t.Run(fmt.Sprint(minute), func(t *testing.T) {
			play(t, share.Limit{Most: minute, Refill: minute / 60}, minute/60, 0, within)
		})
	}
}

// Turns in flight. Of a thousand hosts and few slots, a slot is a little longer on its way.
func TestSlots(t *testing.T) {
	least := leastUse
	if nightly.Is() {
		least = 0.96
	}
	const slots, lasts = 60, 4 * time.Second
	play(t, share.Limit{Most: slots}, slots/lasts.Seconds(), lasts, func(t *testing.T, r Result) {
		assert.LessOrEqual(t, r.Over, 0.0)
		assert.GreaterOrEqual(t, r.Used(), least)
		assert.LessOrEqual(t, r.Longest, rounds*patience)
	})
}

// While the pool is away, each host goes on with its part, and what was too much is paid afterwards.
func TestAway(t *testing.T) {
	for _, hosts := range fleets() {
		for _, load := range Loads {
			t.Run(fmt.Sprintf("%d hosts, %s", hosts, load.Name), func(t *testing.T) {
				const minute = 600
				p := Play{Hosts: hosts, Limit: share.Limit{Most: minute, Refill: minute / 60}, Seed: 1,
					Away:     [2]time.Duration{100 * time.Second, 130 * time.Second},
					Requests: load.Requests(hosts, 3*minute/60, 5*time.Minute, 0, 1)}
				r := p.Run()
				t.Logf("used %.4f, over %.4f", r.Used(), r.Over)
				assert.LessOrEqual(t, r.Over, 0.05)
				assert.GreaterOrEqual(t, r.Used(), 0.80)
			})
		}
	}
}

// A seed gives the same run again.
func TestSeed(t *testing.T) {
	p := Play{Hosts: 3, Limit: share.Limit{Most: 60, Refill: 1}, Seed: 7,
		Requests: Loads[1].Requests(3, 3, time.Minute, 0, 7)}
	assert.Equal(t, p.Run(), p.Run())
}
