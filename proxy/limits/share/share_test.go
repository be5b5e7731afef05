package share

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	noon   = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	minute = Limit{Most: 60, Refill: 1}
)

// exchange makes one of a share with a pool.
func exchange(t *testing.T, s *Share, p *Pool, was Entry, now time.Time) Entry {
	t.Helper()
	ask, due := s.Ask(now)
	require.True(t, due)
	is, answer := p.Exchange("p", was, ask, now)
	s.Answered(answer, 2, now)
	return is
}

// Asks are absolute: one that was lost, or answered without its host, changes nothing.
func TestAsksMayBeRepeated(t *testing.T) {
	s, p, now := New(), &Pool{At: noon}, noon
	s.Set(minute)
	s.Arrive(10, now)
	s.Wait(10)
	ask, _ := s.Ask(now)
	e, _ := p.Exchange("p", Entry{}, ask, now)
	e, answer := p.Exchange("p", e, ask, now)
	s.Answered(answer, 1, now)
	s.Go(10)
	s.Use(10)
	assert.InDelta(t, 10+floorOf(answer.Granted-10), p.Held, 0)
	ask, _ = s.Ask(now)
	e, _ = p.Exchange("p", e, ask, now)
	e, _ = p.Exchange("p", e, ask, now)
	assert.InDelta(t, 10, p.Used, 0)

	// The next process counts anew.
	p.Exchange("q", e, Ask{Limit: minute, Used: 3}, now)
	assert.InDelta(t, 13, p.Used, 0)
	assert.Zero(t, p.Held)
}

func floorOf(n float64) float64 { return float64(int(n)) }

// A share that is not needed goes back.
func TestGivesBack(t *testing.T) {
	s, p, now := New(), &Pool{At: noon}, noon
	s.Set(minute)
	for range 20 {
		s.Arrive(1, now)
	}
	s.Wait(1)
	e := exchange(t, s, p, Entry{}, now)
	s.Go(1)
	assert.Greater(t, e.Held, 5.0)
	e = exchange(t, s, p, e, now.Add(time.Minute))
	assert.Zero(t, e.Held)
	_, due := s.Ask(now.Add(2 * time.Minute))
	assert.False(t, due, "there is nothing to say")
}

// Debts are paid: what was used beyond the share is in the pool, and no host gets a grant until it has flowed off.
func TestDebt(t *testing.T) {
	s, p, now := New(), &Pool{At: noon}, noon
	s.Set(minute)
	s.Cost(100)
	e := exchange(t, s, p, Entry{}, now)
	assert.InDelta(t, 100, p.Used, 0)
	s.Arrive(1, now)
	s.Wait(1)
	e = exchange(t, s, p, e, now)
	assert.False(t, s.Has(1, now))
	assert.False(t, s.Due(now))
	wait := s.Until(1, now)
	assert.InDelta(t, 41, wait.Seconds(), 0.1)
	now = now.Add(wait)
	assert.True(t, s.Due(now))
	exchange(t, s, p, e, now)
	assert.True(t, s.Has(1, now))
}

// A limit of a day is there again at midnight, UTC.
func TestMidnight(t *testing.T) {
	day := Limit{Most: 100, Daily: true}
	p := &Pool{At: noon}
	e, _ := p.Exchange("p", Entry{}, Ask{Limit: day, Used: 100, Want: 5, Need: 5}, noon)
	assert.InDelta(t, 100, p.InUse(day, noon.Add(11*time.Hour)), 0)
	_, answer := p.Exchange("p", e, Ask{Limit: day, Used: 100, Want: 5, Need: 5}, noon.Add(12*time.Hour))
	assert.InDelta(t, 5, answer.Granted, 0)
}

// Without the pool a host goes on with its part of the demand, or an even one.
func TestAway(t *testing.T) {
	s, p, now := New(), &Pool{At: noon, Demand: 9}, noon
	s.Set(minute)
	s.Arrive(2, now) // 1 a second of 10
	exchange(t, s, p, Entry{}, now)
	s.Use(s.balance)
	s.Away(4, now)
	assert.InDelta(t, 0.1, s.part, 0.001)
	had := s.balance
	s.Away(4, now)
	assert.InDelta(t, had, s.balance, 0, "once")
	assert.True(t, s.Has(had+1, now.Add(11*time.Second)))
	assert.False(t, s.Has(had+2, now.Add(11*time.Second)))
	assert.False(t, s.Due(now.Add(time.Hour)), "nobody waits")

	fresh := New()
	fresh.Set(minute)
	fresh.Away(3, now)
	assert.True(t, fresh.Has(1, now))
	assert.False(t, fresh.Has(2, now))
	assert.True(t, fresh.Has(2, now.Add(4*time.Second)), "an even part")
}
