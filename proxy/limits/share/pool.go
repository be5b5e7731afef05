package share

import (
	"math"
	"time"
)

// Limit is a limit that hosts hold together.
type Limit struct {
	Most   float64 // that may be used
	Refill float64 // how much of it is there again after a second; 0: none by time
	Daily  bool    // all of it is there again at midnight, UTC
}

// slots reports whether the limit is of slots: there is more again only when a user gives its slot back.
func (l Limit) slots() bool { return l.Refill == 0 && !l.Daily }

// Ask is a host's question to the pool of a limit. Its figures are absolute: an ask may be repeated, and a later one
// replaces one that was lost.
type Ask struct {
	Limit
	Held   float64 // of its share: in use, or kept
	Used   float64 // that is used up, since the process began
	Demand float64 // of its clients, in a second
	Need   float64 // of requests that wait
	Want   float64 // Need, and the need until the next exchange
}

// Answer is the answer of the pool.
type Answer struct {
	Granted float64 // in addition to Held
	Free    float64 // that no host holds
	Demand  float64 // of all hosts
}

// Entry is the record of a host in the pool.
type Entry struct {
	Process            string
	Used, Held, Demand float64
}

// Pool is the state of a limit that all hosts share. The database has it, and its function codex.share (daemon/fleet)
// answers asks as Exchange does: a test compares the two.
type Pool struct {
	Used, Held, Demand float64
	At                 time.Time
}

// flow has the part of the use flow off that is there again until now.
func (p *Pool) flow(limit Limit, now time.Time) {
	elapsed := max(0, now.Sub(p.At).Seconds())
	if p.Used = max(0, p.Used-limit.Refill*elapsed); limit.Daily && dayOf(now) != dayOf(p.At) {
		p.Used = 0
	}
	if now.After(p.At) {
		p.At = now
	}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// InUse is how much of the limit is used up now.
func (p Pool) InUse(limit Limit, now time.Time) float64 {
	p.flow(limit, now)
	return p.Used
}

// Exchange answers an ask of a process. was is the pool's entry of its host, and is its new one.
func (p *Pool) Exchange(process string, was Entry, ask Ask, now time.Time) (is Entry, answer Answer) {
	p.flow(ask.Limit, now)
	used := ask.Used
	if was.Process == process && used >= was.Used {
		used -= was.Used
	}
	p.Used += used
	p.Held = max(0, p.Held+ask.Held-was.Held)
	p.Demand = max(0, p.Demand+ask.Demand-was.Demand)
	part := partOf(ask.Demand, p.Demand)
	free := ask.Most - p.Used - p.Held
	// Half of a host's part: another one may need it before the next exchange.
	granted := max(0, math.Floor(min(ask.Want, free, ask.Need+max(0, free-ask.Need)*part/2)))
	p.Held += granted
	return Entry{process, ask.Used, ask.Held + granted, ask.Demand}, Answer{granted, free - granted, p.Demand}
}

// TakeBack takes the share of a host back that is lost.
func (p *Pool) TakeBack(was Entry) Entry {
	p.Held, p.Demand = max(0, p.Held-was.Held), max(0, p.Demand-was.Demand)
	return Entry{Process: was.Process, Used: was.Used}
}
