package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// lease is how long a host counts as alive after an exchange, as the statement of Ask has it.
const lease = 5 * time.Second

// steady has since when this host makes exchanges without a gap. Only then it may judge that another host is lost:
// after a time in which the database answered nobody, all leases are over at first.
type steady struct {
	mu          sync.Mutex
	since, last time.Time // of an unbroken series; zero: there is no series
	hosts       int
	foreign     bool // this host is not in the fleet, by the last answer
}

// notJoined is the error of a host that is not in the fleet; its name.
type notJoined string

// Error implements error.
func (n notJoined) Error() string {
	return fmt.Sprintf("this host, %s, has not joined; codex-proxy database join", string(n))
}

// went records an answer. A gap ends the series, also one that no exchange has noticed.
func (s *steady) went(hosts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.since.IsZero() || now.Sub(s.last) > 2*period {
		s.since = now
	}
	s.last, s.hosts, s.foreign = now, hosts, false
}

// broke records an exchange that has failed.
func (s *steady) broke(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	if reason := notJoined(""); errors.As(err, &reason) {
		s.foreign = true
	}
}

// isSteady reports whether all other hosts have had the time to renew their leases since the last gap.
func (s *steady) isSteady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	patience := lease + bound + time.Duration(s.hosts)*2*spread
	return !s.since.IsZero() && now.Sub(s.last) < 2*period && s.last.Sub(s.since) > patience
}

// Steady reports whether this host has asked the database for so long without a gap that it may take a host without a
// lease for lost.
func (e *Exchange) Steady() bool { return e.steady.isSteady() }

// Foreign reports whether this host is not in the fleet, by the last answer.
func (e *Exchange) Foreign() bool {
	e.steady.mu.Lock()
	defer e.steady.mu.Unlock()
	return e.steady.foreign
}

// Spread is a random time, longer the more hosts there are: new connections cost the database most.
func (e *Exchange) Spread() time.Duration {
	e.steady.mu.Lock()
	defer e.steady.mu.Unlock()
	return time.Duration(2 * rand.Float64() * float64(e.steady.hosts) * float64(spread))
}
