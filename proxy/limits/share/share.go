// Package share holds a limit over several hosts: each host takes a share of it from a pool before use, and gives back
// the part that it does not need. The package has no clock and no network; its callers pass the time and carry asks
// and answers.
package share

import (
	"math"
	"time"
)

const (
	// Period is the time between two exchanges with the pool.
	Period = time.Second
	// Gap is the least time between two asks on demand.
	Gap = 20 * time.Millisecond
	// ahead is for how long a share lasts, in seconds, and aheadOfTurns one of turns in flight: others end meanwhile.
	ahead        = 1.5
	aheadOfTurns = 0.5
	// scarce is the part of the limit below which turns in flight are given back at once.
	scarce = 0.1
	// gapPerHost spreads the asks of many hosts that find nothing.
	gapPerHost = time.Millisecond
	// idle is a demand that counts as zero.
	idle = 0.01
	// leastPart is of a limit that a host goes on with without the pool: then one request more on each is little.
	leastPart = 20
	// recently is how long the pool is taken to have as much free as it has answered.
	recently = 3 * Period
)

// Share is a host's share of a limit. One goroutine at a time may use it.
type Share struct {
	limit   Limit
	balance float64 // of the share, not in use; below zero: used without a share
	inUse   float64 // by users that give it back: turns in flight
	used    float64 // since the process began
	waiting float64 // that requests wait for
	demand  demand
	cost    float64 // of one use, on average, if it is known at its end alone

	ask    asked
	told   Entry // the record of this host in the pool
	answer Answer
	at     time.Time // of the answer; zero: none yet
	next   time.Time // before it no ask helps
	hosts  int

	away time.Time // until when the own part of the refill is counted, without the pool; zero: the pool is there
	part float64   // of the limit, while it is away
}

// asked is the state at an ask.
type asked struct{ kept, used, inUse, need, demand float64 }

// New returns an empty share.
func New() *Share { return &Share{hosts: 1} }

// Set takes over the limit, which may change.
func (s *Share) Set(limit Limit) { s.limit = limit }

// Arrive counts a request of so many turns, whether it is admitted or not.
func (s *Share) Arrive(n float64, now time.Time) {
	s.demand.add(n*max(1, s.cost), now)
}

// Has reports whether the share has n.
func (s *Share) Has(n float64, now time.Time) bool {
	s.accrue(now)
	return s.balance >= n
}

// Use uses up n, whether the share has it or not.
func (s *Share) Use(n float64) {
	s.balance -= n
	s.used += n
}

// Cost is Use at the end of a request, when its cost is known.
func (s *Share) Cost(n float64) {
	const weight = 0.1
	if s.cost == 0 {
		s.cost = n
	}
	s.cost += weight * (n - s.cost)
	s.Use(n)
}

// Occupy sets how much is in use.
func (s *Share) Occupy(n float64) {
	s.balance += s.inUse - n
	s.inUse = n
}

// Wait counts n that a request waits for, and Go that it waits no more.
func (s *Share) Wait(n float64) { s.waiting += n }

// Go ends a Wait.
func (s *Share) Go(n float64) { s.waiting = max(0, s.waiting-n) }

// Due reports whether an ask may help a request that waits.
func (s *Share) Due(now time.Time) bool { return s.away.IsZero() && !now.Before(s.next) }

// Spare reports whether the pool should get something back at once, as other hosts may wait for it.
func (s *Share) Spare(now time.Time) bool {
	return s.short() && s.limit.slots() && s.balance > s.keep(now) && s.Due(now)
}

// short reports whether the pool had nothing left, or few slots.
func (s *Share) short() bool {
	return !s.at.IsZero() && (s.answer.Free < 1 || s.limit.slots() && s.answer.Free < scarce*s.limit.Most)
}

// target is the need of the host until the next exchange.
func (s *Share) target(now time.Time) float64 {
	if s.limit.slots() {
		return aheadOfTurns * s.demand.rate(now)
	}
	return ahead * s.demand.rate(now)
}

// keep is how much of the balance stays here.
func (s *Share) keep(now time.Time) float64 {
	target := s.target(now)
	if !s.short() && s.balance <= 2*target {
		return s.balance
	}
	if s.short() && s.limit.slots() {
		target = min(target, max(0, math.Floor(s.limit.Most*partOf(s.demand.rate(now), s.answer.Demand))-s.inUse))
	}
	return math.Floor(min(s.balance, target+0.5))
}

// Ask returns the ask of the next exchange. The part that the pool gets back cannot be used from now on. It returns
// false if the pool needs no ask.
func (s *Share) Ask(now time.Time) (Ask, bool) {
	rate := s.demand.rate(now)
	if rate < idle {
		rate = 0
	}
	if rate == 0 && s.waiting == 0 && s.balance == 0 && s.inUse == 0 && s.Unsent() == 0 && s.told.Held == 0 &&
		s.told.Demand == 0 {
		return Ask{}, false
	}
	kept := 0.0
	if s.away.IsZero() && s.balance > 0 {
		kept = min(s.balance, max(s.keep(now), s.waiting))
		s.balance = kept
	}
	need := max(0, s.waiting-kept)
	want := max(need, math.Floor(s.waiting+s.target(now)-kept+0.5))
	s.ask = asked{kept, s.used, s.inUse, need, rate}
	return Ask{s.limit, kept + s.inUse, s.used, rate, need, want}, true
}

// Answered takes over the answer of the pool to the last ask.
func (s *Share) Answered(a Answer, hosts int, now time.Time) {
	s.balance = s.ask.kept + a.Granted - (s.used - s.ask.used) - (s.inUse - s.ask.inUse)
	s.told = Entry{Used: s.ask.used, Held: s.ask.kept + s.ask.inUse + a.Granted, Demand: s.ask.demand}
	s.answer, s.at, s.hosts, s.away = a, now, max(1, hosts), time.Time{}
	if s.next = now; a.Granted < s.ask.need {
		s.next = now.Add(pause(s.hosts, s.limit.Refill*partOf(s.demand.rate(now), a.Demand)))
	}
}

// Away has the share go on without the pool: with the host's part of the free rest, and of the refill, by the last
// known demand of all hosts. A host without a demand then gets an even part.
func (s *Share) Away(hosts int, now time.Time) {
	if !s.away.IsZero() {
		return
	}
	s.hosts, s.away = max(1, s.hosts, hosts), now
	if s.part = 1 / float64(s.hosts); s.told.Demand > 0 {
		s.part = min(1, s.told.Demand/s.answer.Demand)
	}
	free := s.answer.Free
	switch since := now.Sub(s.at); {
	case since <= recently:
		free += s.limit.Refill * since.Seconds()
	case s.limit.Refill > 0: // it is not known, and the refill is enough
		free = 0
	case s.at.IsZero():
		free = s.limit.Most
	}
	s.balance += math.Floor(min(s.limit.Most, max(0, free)) * s.part)
	// The first request needs not wait for the refill.
	if s.limit.Refill > 0 && (s.hosts == 1 || s.limit.Most*s.part >= leastPart) {
		s.balance = max(s.balance, min(1, s.balance+1))
	}
}

// accrue adds the own part of the refill while the pool is away.
func (s *Share) accrue(now time.Time) {
	if s.away.IsZero() || s.limit.Refill == 0 {
		return
	}
	more := s.limit.Refill * s.part * max(0, now.Sub(s.away).Seconds())
	s.balance = max(s.balance, min(s.balance+more, s.limit.Most*s.part))
	s.away = now
}

// Left is how much of the limit is left for all hosts, as far as this one knows.
func (s *Share) Left(now time.Time) float64 {
	s.accrue(now)
	left := s.limit.Most - s.inUse - s.used // of a share without an answer
	if !s.at.IsZero() {
		left = s.answer.Free + s.balance + s.limit.Refill*now.Sub(s.at).Seconds()
	}
	return max(0, min(left, s.limit.Most))
}

// Until is the time until n may be there; 0 is not known.
func (s *Share) Until(n float64, now time.Time) time.Duration {
	refill, missing, since := s.limit.Refill, n-s.balance-s.answer.Free, s.at
	if !s.away.IsZero() {
		refill, missing, since = s.limit.Refill*s.part, n-s.balance, s.away
	}
	if refill == 0 || since.IsZero() {
		return 0
	}
	missing = max(0, missing-refill*now.Sub(since).Seconds())
	return time.Duration(math.Ceil(missing / refill * float64(time.Second)))
}

// Unsent is the use that the pool does not know of.
func (s *Share) Unsent() float64 { return s.used - s.told.Used }
