package limits

import (
	"sync"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits/share"
)

// patience is the longest that a request waits for one exchange. Then the pool counts as away.
const patience = 100 * time.Millisecond

// Shares are this host's shares of the limits of API keys, which several hosts hold together. A request is admitted out
// of the share. If that is used up it waits for an exchange with the pool of all hosts, twice at most. It is safe for
// concurrent use; one goroutine makes the exchanges.
type Shares struct {
	mu    sync.Mutex
	keys  map[string]*keyShares
	hosts int
	away  bool   // the pool does not answer
	after string // the key of the last ask

	asked, answered uint64        // exchanges
	ended           chan struct{} // closed and replaced at the end of an exchange
	wake            chan struct{} // holds a token if the next exchange must not wait
}

// NewShares returns no shares yet: the pool of the hosts has not answered.
func NewShares() *Shares {
	return &Shares{
		keys: map[string]*keyShares{}, hosts: 1, ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// keyShares are the shares of one key.
type keyShares struct {
	kinds              map[string]*share.Share // by the name of the limit
	running, elsewhere int64                   // turns in flight, of this process and of others on this host
}

// sharedKinds are the limits that hosts hold together, in the order in which they are checked.
var sharedKinds = []string{auth.Concurrent, auth.TokensPerDay, auth.TokensPerMinute, auth.RequestsPerMinute}

// SharedLimit returns a limit of a key for the pool.
func SharedLimit(limits auth.Limits, kind string) share.Limit {
	most := float64(limits.Number(kind))
	switch kind {
	case auth.RequestsPerMinute, auth.TokensPerMinute:
		return share.Limit{Most: most, Refill: most / 60}
	default:
		return share.Limit{Most: most, Daily: kind == auth.TokensPerDay}
	}
}

// of returns the shares of a key, by its present limits. It is called under the lock.
func (s *Shares) of(name string, limits auth.Limits) *keyShares {
	k := s.keys[name]
	if k == nil {
		k = &keyShares{kinds: map[string]*share.Share{}}
		s.keys[name] = k
	}
	for _, kind := range sharedKinds {
		if limits.Number(kind) == 0 {
			delete(k.kinds, kind)
			continue
		}
		one := k.kinds[kind]
		if one == nil {
			one = share.New()
			k.kinds[kind] = one
		}
		one.Set(SharedLimit(limits, kind))
		if s.away {
			one.Away(s.hosts, time.Now())
		}
	}
	k.occupy()
	return k
}

func (k *keyShares) occupy() {
	if slots := k.kinds[auth.Concurrent]; slots != nil {
		slots.Occupy(float64(k.running + k.elsewhere))
	}
}

// need is how much of a limit a request of so many turns needs to be admitted: the tokens are known at its end.
func need(kind string, turns int64) float64 {
	if kind == auth.Concurrent || kind == auth.RequestsPerMinute {
		return float64(turns)
	}
	return 1
}

// lacking returns the first limit of which the share is too small; empty if none is.
func (k *keyShares) lacking(turns int64, now time.Time) (kind string) {
	for _, kind := range sharedKinds {
		if one := k.kinds[kind]; one != nil && !one.Has(need(kind, turns), now) {
			return kind
		}
	}
	return ""
}

// take admits a request of so many turns out of the shares of its key, or names the limit that is met, and the wait as
// Limiter.begin does.
func (s *Shares) take(name string, limits auth.Limits, turns int64) (met string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, now := s.of(name, limits), time.Now()
	for kind, one := range k.kinds {
		one.Arrive(need(kind, turns), now)
	}
	const most = 2 // exchanges
	for exchanges := 0; ; exchanges++ {
		met = k.lacking(turns, now)
		if met == "" {
			k.running += turns
			k.use(auth.RequestsPerMinute, float64(turns))
			k.occupy()
			return "", 0
		}
		one := k.kinds[met]
		if exchanges == most || !one.Due(now) {
			return met, one.Until(need(met, turns), now)
		}
		k.wait(turns, (*share.Share).Wait) // for all of its limits: its share must not be given back meanwhile
		s.await()
		k.wait(turns, (*share.Share).Go)
		k, now = s.of(name, limits), time.Now()
	}
}

// wait calls Wait or Go of all shares of a key.
func (k *keyShares) wait(turns int64, do func(*share.Share, float64)) {
	for kind, one := range k.kinds {
		do(one, need(kind, turns))
	}
}

// await waits, without the lock, for the end of an exchange that begins now. If that is late, the pool is away.
func (s *Shares) await() {
	next := s.asked + 1
	s.signal()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for s.answered < next && !s.away {
		ended := s.ended
		s.mu.Unlock()
		select {
		case <-ended:
			s.mu.Lock()
		case <-timer.C:
			s.mu.Lock()
			s.leave()
		}
	}
}

// signal has the next exchange begin at once.
func (s *Shares) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// use uses up a share of a kind that the key may not have.
func (k *keyShares) use(kind string, n float64) {
	if one := k.kinds[kind]; one != nil {
		one.Use(n)
	}
}

// settle ends a request that take admitted, with the tokens that it took.
func (s *Shares) settle(name string, limits auth.Limits, turns, tokens int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.of(name, limits)
	k.running -= turns
	k.occupy()
	for _, kind := range []string{auth.TokensPerMinute, auth.TokensPerDay} {
		if one := k.kinds[kind]; one != nil {
			one.Cost(float64(tokens))
		}
	}
	if slots := k.kinds[auth.Concurrent]; slots != nil && slots.Spare(time.Now()) {
		s.signal()
	}
}

// spend counts further tokens of a key.
func (s *Shares) spend(name string, tokens int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[name]; k != nil {
		k.use(auth.TokensPerMinute, float64(tokens))
		k.use(auth.TokensPerDay, float64(tokens))
	}
}

// add counts the use by other processes of this host: fresh is the new part of it, and running are the turns that
// they have in flight.
func (s *Shares) add(name string, limits auth.Limits, fresh KeyLevel, running int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[name] == nil && fresh == (KeyLevel{}) && running == 0 {
		return
	}
	k := s.of(name, limits)
	k.elsewhere = running
	k.occupy()
	k.use(auth.RequestsPerMinute, fresh.Requests)
	k.use(auth.TokensPerMinute, fresh.Tokens)
	k.use(auth.TokensPerDay, fresh.Tokens)
}

// unsent is the use that the pool does not know of yet.
func (s *Shares) unsent(name string) (level KeyLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[name]
	if k == nil {
		return level
	}
	if one := k.kinds[auth.RequestsPerMinute]; one != nil {
		level.Requests = one.Unsent()
	}
	for _, kind := range []string{auth.TokensPerMinute, auth.TokensPerDay} {
		if one := k.kinds[kind]; one != nil {
			level.Tokens = max(level.Tokens, one.Unsent())
		}
	}
	return level
}

// used is how much of a limit all hosts use, as far as this one knows.
func (s *Shares) used(name string, limits auth.Limits, kind string, now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[name]; k != nil && k.kinds[kind] != nil {
		return max(0, float64(limits.Number(kind))-k.kinds[kind].Left(now))
	}
	return 0
}

// beginShared is begin for limits that several hosts hold together.
func (l *Limiter) beginShared(name string, limits auth.Limits, turns int64) (met string, wait time.Duration) {
	// This host alone may have used more today than the pool knows of: it joined later.
	if most := limits.TokensPerDay; most > 0 && l.usage.Today(name) >= most {
		met, wait = auth.TokensPerDay, untilTomorrow(time.Now())
	} else if met, wait = l.shares.take(name, limits, turns); met == auth.TokensPerDay {
		wait = untilTomorrow(time.Now())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meter(name)
	if met != "" {
		m.refused[met]++
		return met, wait
	}
	m.use.Running += turns
	if limits.RequestsPerMinute > 0 {
		m.use.Requests += turns
	}
	return "", 0
}
