package limits

import (
	"time"

	"codex-proxy/proxy/auth"
)

// KeyUse is the use of an API key by its requests in one process, or in several.
type KeyUse struct {
	Running  int64 `json:"running,omitempty"`  // turns in flight
	Requests int64 `json:"requests,omitempty"` // of limits per minute, since the process began
	Tokens   int64 `json:"tokens,omitempty"`   // of limits per minute, since the process began
}

// Plus is both together.
func (u KeyUse) Plus(o KeyUse) KeyUse {
	return KeyUse{u.Running + o.Running, u.Requests + o.Requests, u.Tokens + o.Tokens}
}

// KeyLevel is how much of its limits per minute an API key has used up, in all processes
// that knew of each other; of limits that several hosts hold, the part that their pool does not know of yet.
type KeyLevel struct {
	Requests float64 `json:"requests,omitempty"`
	Tokens   float64 `json:"tokens,omitempty"`
}

// running is the number of turns that all processes have in flight.
func (m *meter) running() int64 { return m.use.Running + m.elsewhere.Running }

// Used returns the use of each limit of a key now, and how often each limit was met. Without a limit per minute, its
// use is not counted.
func (l *Limiter) Used(key auth.Key) (used, refused map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used, refused = map[string]int64{auth.TokensPerDay: l.usage.Today(key.Name)}, map[string]int64{}
	m := l.meters[key.Name]
	if m == nil {
		return used, refused
	}
	for limit, n := range l.levels(key.Name, m, key.Limits, time.Now()) {
		used[limit] = int64(n)
	}
	for limit, n := range m.refused {
		refused[limit] = int64(n)
	}
	return used, refused
}

// KeyUses returns the use of each key in this process, of the keys that used anything.
func (l *Limiter) KeyUses() map[string]KeyUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	uses := map[string]KeyUse{}
	for name, m := range l.meters {
		if m.use != (KeyUse{}) {
			uses[name] = m.use
		}
	}
	return uses
}

// KeyLevels returns how much of its limits per minute each key has used up now, of the
// keys that have. It is for a process that counts nothing yet.
func (l *Limiter) KeyLevels() map[string]KeyLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	levels, now := map[string]KeyLevel{}, time.Now()
	for _, key := range l.keys.All() {
		m := l.meters[key.Name]
		if m == nil {
			continue
		}
		level := KeyLevel{m.requests.flow(key.Limits.RequestsPerMinute, now),
			m.tokens.flow(key.Limits.TokensPerMinute, now)}
		if l.shares != nil {
			level = l.shares.unsent(key.Name)
		}
		if level != (KeyLevel{}) {
			levels[key.Name] = level
		}
	}
	return levels
}

// RecallKeys takes over the levels of another process, and the use of the keys in that
// process and those before it.
func (l *Limiter) RecallKeys(levels map[string]KeyLevel, uses map[string]KeyUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for name, level := range levels {
		m := l.meter(name)
		m.requests, m.tokens = bucket{level.Requests, now}, bucket{level.Tokens, now}
	}
	for name, use := range uses {
		l.meter(name).elsewhere = use
	}
	if l.shares != nil {
		for _, key := range l.keys.All() {
			l.shares.add(key.Name, key.Limits, levels[key.Name], uses[key.Name].Running)
		}
	}
}

// KeysElsewhere takes over the use of the keys in other processes. Use of the limits per
// minute since the last call is added here.
func (l *Limiter) KeysElsewhere(uses map[string]KeyUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range uses {
		l.meter(name)
	}
	now := time.Now()
	limits := map[string]auth.Limits{}
	for _, key := range l.keys.All() {
		limits[key.Name] = key.Limits
	}
	for name, m := range l.meters {
		if l.shares != nil {
			fresh := KeyLevel{float64(max(0, uses[name].Requests-m.elsewhere.Requests)),
				float64(max(0, uses[name].Tokens-m.elsewhere.Tokens))}
			l.shares.add(name, limits[name], fresh, uses[name].Running)
		}
		m.elsewhereIs(uses[name], limits[name], now)
	}
}

// elsewhereIs is one key's part of KeysElsewhere. The use of a process that has ended is
// not subtracted: it has been added already.
func (m *meter) elsewhereIs(use KeyUse, limits auth.Limits, now time.Time) {
	m.requests.flow(limits.RequestsPerMinute, now)
	m.tokens.flow(limits.TokensPerMinute, now)
	m.requests.used += float64(max(0, use.Requests-m.elsewhere.Requests))
	m.tokens.used += float64(max(0, use.Tokens-m.elsewhere.Tokens))
	m.elsewhere = use
}
