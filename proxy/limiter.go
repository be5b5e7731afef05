package proxy

import (
	"maps"
	"math"
	"sync"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

// limiter holds each key to its limits. Those of a minute are token buckets: a
// bucket holds a minute's worth and is refilled evenly, so that a key which was
// idle may use a minute's worth at once. What a request costs in tokens is known
// when it has ended: it is let in while the bucket is not empty and takes its
// whole cost out then, below zero if need be. The day is counted by usage. What
// other processes let in counts, too: see KeyUse.
type limiter struct {
	keys    *auth.Keys
	usage   *usage.Store
	claim   func() bool // Settings.Claim, or nil
	changed func()      // Settings.OnKeyUse, or nil

	mu     sync.Mutex
	meters map[string]*meter // by key name; a key without a meter is unused
}

// meter is what one key uses now.
type meter struct {
	requests, tokens bucket
	use              KeyUse             // by this process
	elsewhere        KeyUse             // by others
	refused          map[string]float64 // how often, by the limit that was met
}

// bucket counts what was used and flows off at the pace of a limit, which may
// change meanwhile.
type bucket struct {
	used float64
	at   time.Time
}

// flow is what is still used at now.
func (b *bucket) flow(limit int64, now time.Time) float64 {
	b.used = max(0, b.used-float64(limit)*now.Sub(b.at).Minutes())
	if limit == 0 {
		b.used = 0 // a limit that comes later begins anew
	}
	b.at = now
	return b.used
}

// until is the time after which no more than rest is used.
func (b *bucket) until(limit int64, rest float64) time.Duration {
	return time.Duration(math.Ceil(max(0, b.used-rest) / float64(limit) * float64(time.Minute)))
}

func newLimiter(keys *auth.Keys, store *usage.Store) *limiter {
	return &limiter{keys: keys, usage: store, meters: map[string]*meter{}}
}

// meter is called under the lock. It forgets the meters of keys that are gone.
func (l *limiter) meter(name string) *meter {
	if l.meters[name] == nil {
		l.forget()
		l.meters[name] = &meter{refused: map[string]float64{}}
	}
	return l.meters[name]
}

func (l *limiter) forget() {
	known := map[string]bool{}
	for _, k := range l.keys.All() {
		known[k.Name] = true
	}
	for name, m := range l.meters {
		if !known[name] && m.use.Running == 0 && m.elsewhere == (KeyUse{}) {
			delete(l.meters, name)
		}
	}
}

// begin lets a request of so many turns in, which must end then, or names the
// limit that is met and when it may be let in; 0 is not known. A request that is
// not let in uses nothing.
func (l *limiter) begin(name string, limits auth.Limits, turns int64) (met string, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	met, wait = l.check(name, m, limits, turns, now)
	if met == auth.Concurrent && m.elsewhere.Running > 0 && l.claimed() {
		// What the others have in flight may have ended meanwhile: not every end is sent.
		m = l.meter(name)
		met, wait = l.check(name, m, limits, turns, time.Now())
	}
	if met != "" {
		m.refused[met]++
		return met, wait
	}
	m.use.Running += turns
	if limits.Concurrent > 0 && l.claimed() && m.running() > limits.Concurrent {
		m.use.Running -= turns
		l.tell()
		m.refused[auth.Concurrent]++
		return auth.Concurrent, 0
	}
	if limits.RequestsPerMinute > 0 {
		m.requests.used += float64(turns)
		m.use.Requests += turns
	}
	return "", 0
}

// claimed waits, without the lock, until the other processes count what this one has
// counted; false means that there are no others that have to.
func (l *limiter) claimed() bool {
	if l.claim == nil {
		return false
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	return l.claim()
}

func (l *limiter) check(name string, m *meter, limits auth.Limits, turns int64, now time.Time) (met string, wait time.Duration) {
	perMinute, tokens := limits.RequestsPerMinute, limits.TokensPerMinute
	requests, spent := m.requests.flow(perMinute, now), m.tokens.flow(tokens, now)
	switch {
	case limits.Concurrent > 0 && m.running()+turns > limits.Concurrent:
		return auth.Concurrent, 0
	case limits.TokensPerDay > 0 && l.usage.Today(name) >= limits.TokensPerDay:
		return auth.TokensPerDay, untilTomorrow(now)
	case tokens > 0 && spent > float64(tokens)-1:
		return auth.TokensPerMinute, m.tokens.until(tokens, float64(tokens)-1)
	case perMinute > 0 && requests > float64(perMinute-turns):
		return auth.RequestsPerMinute, m.requests.until(perMinute, float64(perMinute-turns))
	}
	return "", 0
}

// end is for a request that was let in, with the tokens that it took.
func (l *limiter) end(name string, limits auth.Limits, turns, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meter(name)
	m.use.Running -= turns
	if limits.TokensPerMinute > 0 {
		m.tokens.flow(limits.TokensPerMinute, time.Now())
		m.tokens.used += float64(tokens)
		m.use.Tokens += tokens
	}
	l.tell()
}

// tell may be called under the lock.
func (l *limiter) tell() {
	if l.changed != nil {
		l.changed()
	}
}

// refuse counts a request that was not let in for another reason.
func (l *limiter) refuse(name, limit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter(name).refused[limit]++
}

// uses are what counts against each limit that the key has, and how often a limit
// was met.
func (l *limiter) uses(name string, limits auth.Limits) (used, refused map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	all := map[string]float64{
		auth.RequestsPerMinute: m.requests.flow(limits.RequestsPerMinute, now),
		auth.TokensPerMinute:   m.tokens.flow(limits.TokensPerMinute, now),
		auth.TokensPerDay:      float64(l.usage.Today(name)),
		auth.Concurrent:        float64(m.running()),
	}
	maps.DeleteFunc(all, func(limit string, _ float64) bool { return limits.Number(limit) == 0 })
	refused = make(map[string]float64, len(all))
	for limit := range all { // what has never happened is 0 and not absent
		refused[limit] = 0
	}
	maps.Copy(refused, m.refused)
	return all, refused
}

// standing is what a key has left of one limit.
type standing struct {
	limit, remaining int64
	reset            time.Duration // until the whole limit is there again
}

// standings are what the key has left of requests and of tokens, with those that
// are about to be counted; nil where it has no such limit. Tokens are those of a
// minute, or of the day for a key that only has that limit.
func (l *limiter) standings(name string, limits auth.Limits, tokens int64) (requests, ofTokens *standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	m.requests.flow(limits.RequestsPerMinute, now)
	m.tokens.flow(limits.TokensPerMinute, now)
	if n := limits.RequestsPerMinute; n > 0 {
		requests = m.requests.standing(n)
	}
	if n := limits.TokensPerMinute; n > 0 {
		b := m.tokens
		b.used += float64(tokens)
		return requests, b.standing(n)
	}
	if n := limits.TokensPerDay; n > 0 {
		used := l.usage.Today(name) + tokens
		ofTokens = &standing{limit: n, remaining: max(0, n-used), reset: untilTomorrow(now)}
	}
	return requests, ofTokens
}

func (b *bucket) standing(limit int64) *standing {
	return &standing{limit: limit, remaining: max(0, int64(float64(limit)-b.used)), reset: b.until(limit, 0)}
}

// untilTomorrow is when the day of the limits ends: at midnight, UTC.
func untilTomorrow(now time.Time) time.Duration {
	year, month, day := now.UTC().Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC).Sub(now)
}
