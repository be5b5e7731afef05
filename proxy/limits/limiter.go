package limits

import (
	"maps"
	"math"
	"sync"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

// Limiter holds each API key to its limits. The limits of a minute are token buckets: a
// bucket holds a minute's worth and is refilled evenly, so that a key without requests
// may use a minute's worth at once. The cost of a request in tokens is known when the
// request has ended: it is admitted while the bucket is not empty, and takes its whole
// cost out at its end, below zero if need be. The package usage counts the day. Requests
// that other processes admitted count, too: see KeyUse. It is safe for concurrent use.
type Limiter struct {
	keys      *auth.Keys
	usage     *usage.Store
	nextPlace func() time.Duration
	claim     func() bool
	changed   func()
	shares    *Shares // nil: this host holds the limits alone

	mu     sync.Mutex
	meters map[string]*meter // by key name; a key without a meter is unused
	hidden hidden
}

// Settings is the configuration of a Limiter.
type Settings struct {
	Keys *auth.Keys
	// Usage counts the use of the keys; nil: it is not counted.
	Usage *usage.Store
	// NextPlace is when a new request can expect a place on a worker.
	NextPlace func() time.Duration
	// Claim is called, without a lock, when a request was counted as running: it waits until other processes count it,
	// and may call KeysElsewhere. It returns false if no other process has to count it. Nil: there is no other process.
	Claim func() bool
	// OnKeyUse is called when KeyUses may have decreased, and must not wait. Nil: not at all.
	OnKeyUse func()
	// Shares has the shares of this host, if several hold the limits together; nil: it holds them alone.
	Shares *Shares
}

// NewLimiter creates a limiter of unused keys.
func NewLimiter(s Settings) *Limiter {
	l := &Limiter{
		keys: s.Keys, usage: s.Usage, nextPlace: s.NextPlace, claim: s.Claim, changed: s.OnKeyUse,
		shares: s.Shares, meters: map[string]*meter{},
	}
	if l.changed == nil {
		l.changed = func() {}
	}
	return l
}

// meter is the current use of one key.
type meter struct {
	requests, tokens bucket
	use              KeyUse             // by this process
	elsewhere        KeyUse             // by others
	refused          map[string]float64 // how often, by the limit that was met
}

// bucket counts the use of a limit, and flows off at the pace of that limit, which may
// change meanwhile.
type bucket struct {
	used float64
	at   time.Time
}

// flow returns the part that is still used at now.
func (b *bucket) flow(limit int64, now time.Time) float64 {
	b.used = max(0, b.used-float64(limit)*now.Sub(b.at).Minutes())
	if limit == 0 {
		b.used = 0 // a limit that is set later begins anew
	}
	b.at = now
	return b.used
}

// until is the time after which no more than rest is used.
func (b *bucket) until(limit int64, rest float64) time.Duration {
	return time.Duration(math.Ceil(max(0, b.used-rest) / float64(limit) * float64(time.Minute)))
}

// meter is called under the lock. It forgets the meters of keys that are gone.
func (l *Limiter) meter(name string) *meter {
	if l.meters[name] == nil {
		forget(l.meters, l.keys.All())
		l.meters[name] = &meter{refused: map[string]float64{}}
	}
	return l.meters[name]
}

// forget deletes the meters of keys that are gone and not in use.
func forget(meters map[string]*meter, keys []auth.Key) {
	known := map[string]bool{}
	for _, k := range keys {
		known[k.Name] = true
	}
	for name, m := range meters {
		if !known[name] && m.use.Running == 0 && m.elsewhere == (KeyUse{}) {
			delete(meters, name)
		}
	}
}

// begin admits a request of so many turns, which must be ended with end, or names the
// limit that is met and the wait until the request may be admitted; 0 is not known. A
// request that is refused uses nothing.
func (l *Limiter) begin(name string, limits auth.Limits, turns int64) (met string, wait time.Duration) {
	if l.shares != nil {
		return l.beginShared(name, limits, turns)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	met, wait = l.check(name, m, limits, turns, now)
	if met == auth.Concurrent && m.elsewhere.Running > 0 && l.claimed() {
		// Requests of the other processes may have ended meanwhile: not every end is sent.
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
		l.changed()
		m.refused[auth.Concurrent]++
		return auth.Concurrent, 0
	}
	if limits.RequestsPerMinute > 0 {
		m.requests.used += float64(turns)
		m.use.Requests += turns
	}
	return "", 0
}

// claimed waits, without the lock, until the other processes count the use by this process; it returns false if no
// other process has to.
func (l *Limiter) claimed() bool {
	if l.claim == nil {
		return false
	}
	l.mu.Unlock()
	defer l.mu.Lock()
	return l.claim()
}

func (l *Limiter) check(name string, m *meter, limits auth.Limits, turns int64, now time.Time) (
	met string, wait time.Duration,
) {
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

// end ends a request that was admitted, with the tokens that it took.
func (l *Limiter) end(name string, limits auth.Limits, turns, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meter(name)
	m.use.Running -= turns
	m.spend(limits, tokens, time.Now())
	if l.shares != nil {
		l.shares.settle(name, limits, turns, tokens)
	}
	l.changed()
}

// spend counts tokens, if the key has a limit of them.
func (m *meter) spend(limits auth.Limits, tokens int64, now time.Time) {
	if limits.TokensPerMinute > 0 {
		m.tokens.flow(limits.TokensPerMinute, now)
		m.tokens.used += float64(tokens)
		m.use.Tokens += tokens
	}
}

// refuse counts a request that was refused for another reason.
func (l *Limiter) refuse(name, limit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter(name).refused[limit]++
}

// uses returns the use of each limit of the key, and how often each limit was met.
func (l *Limiter) uses(name string, limits auth.Limits) (used, refused map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	all := l.levels(name, m, limits, now)
	maps.DeleteFunc(all, func(limit string, _ float64) bool { return limits.Number(limit) == 0 })
	refused = make(map[string]float64, len(all))
	for limit := range all { // a limit that was never met is 0 and not absent
		refused[limit] = 0
	}
	maps.Copy(refused, m.refused)
	return all, refused
}

// levels returns the use of each limit of a key, on all hosts.
func (l *Limiter) levels(name string, m *meter, limits auth.Limits, now time.Time) map[string]float64 {
	all := make(map[string]float64, len(sharedKinds))
	for _, kind := range sharedKinds {
		all[kind] = l.level(name, m, limits, kind, now)
	}
	return all
}

// level is the use of one limit.
func (l *Limiter) level(name string, m *meter, limits auth.Limits, kind string, now time.Time) (level float64) {
	switch kind {
	case auth.RequestsPerMinute:
		level = m.requests.flow(limits.RequestsPerMinute, now)
	case auth.TokensPerMinute:
		level = m.tokens.flow(limits.TokensPerMinute, now)
	case auth.TokensPerDay:
		level = float64(l.usage.Today(name))
	case auth.Concurrent:
		level = float64(m.running())
	}
	if l.shares != nil {
		level = max(level, l.shares.used(name, limits, kind, now))
	}
	return level
}

// standing is the rest of one limit of a key.
type standing struct {
	limit, remaining int64
	reset            time.Duration // until the whole limit is there again
}

// standings returns the requests and tokens that the key has left, less tokens that are about to be counted; nil where
// it has no such limit. The tokens are of a minute, or of the day for a key that only has that limit.
func (l *Limiter) standings(name string, limits auth.Limits, tokens int64) (requests, ofTokens *standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, now := l.meter(name), time.Now()
	if n := limits.RequestsPerMinute; n > 0 {
		b := bucket{used: l.level(name, m, limits, auth.RequestsPerMinute, now)}
		requests = b.standing(n)
	}
	if n := limits.TokensPerMinute; n > 0 {
		b := bucket{used: l.level(name, m, limits, auth.TokensPerMinute, now) + float64(tokens)}
		return requests, b.standing(n)
	}
	if n := limits.TokensPerDay; n > 0 {
		used := int64(l.level(name, m, limits, auth.TokensPerDay, now)) + tokens
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
