package proxy

import (
	"time"

	"codex-proxy/proxy/auth"
)

// KeyUse is what a process, or several, let requests of an API key use.
type KeyUse struct {
	Running  int64 `json:"running,omitempty"`  // turns in flight
	Requests int64 `json:"requests,omitempty"` // of limits per minute, since the process began
	Tokens   int64 `json:"tokens,omitempty"`   // likewise
}

// Plus is both together.
func (u KeyUse) Plus(o KeyUse) KeyUse {
	return KeyUse{u.Running + o.Running, u.Requests + o.Requests, u.Tokens + o.Tokens}
}

// KeyLevel is how much of its limits per minute an API key has used up, by all
// processes that knew of each other.
type KeyLevel struct {
	Requests float64 `json:"requests,omitempty"`
	Tokens   float64 `json:"tokens,omitempty"`
}

// running is what all processes have in flight.
func (m *meter) running() int64 { return m.use.Running + m.elsewhere.Running }

// KeyUses are what this process let each key use, of those that used anything.
func (s *Server) KeyUses() map[string]KeyUse {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	uses := map[string]KeyUse{}
	for name, m := range s.limiter.meters {
		if m.use != (KeyUse{}) {
			uses[name] = m.use
		}
	}
	return uses
}

// KeyLevels are how much of its limits per minute each key has used up now, of
// those that have. They are for a process that counts nothing yet.
func (s *Server) KeyLevels() map[string]KeyLevel {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	levels, now := map[string]KeyLevel{}, time.Now()
	for _, key := range s.Keys.All() {
		m := s.limiter.meters[key.Name]
		if m == nil {
			continue
		}
		level := KeyLevel{m.requests.flow(key.Limits.RequestsPerMinute, now), m.tokens.flow(key.Limits.TokensPerMinute, now)}
		if level != (KeyLevel{}) {
			levels[key.Name] = level
		}
	}
	return levels
}

// RecallKeys takes over the levels of another process, and what it and those
// before it had let the keys use by then.
func (s *Server) RecallKeys(levels map[string]KeyLevel, uses map[string]KeyUse) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	now := time.Now()
	for name, level := range levels {
		m := s.limiter.meter(name)
		m.requests, m.tokens = bucket{level.Requests, now}, bucket{level.Tokens, now}
	}
	for name, use := range uses {
		s.limiter.meter(name).elsewhere = use
	}
}

// KeysElsewhere takes over what other processes let the keys use. What has been
// added to the limits per minute since the last time is added here.
func (s *Server) KeysElsewhere(uses map[string]KeyUse) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	for name := range uses {
		s.limiter.meter(name)
	}
	now := time.Now()
	limits := map[string]auth.Limits{}
	for _, key := range s.Keys.All() {
		limits[key.Name] = key.Limits
	}
	for name, m := range s.limiter.meters {
		m.heard(uses[name], limits[name], now)
	}
}

// heard is one key's part of KeysElsewhere. A process that has ended takes what it
// has let the key use with it: that has been added already.
func (m *meter) heard(use KeyUse, limits auth.Limits, now time.Time) {
	m.requests.flow(limits.RequestsPerMinute, now)
	m.tokens.flow(limits.TokensPerMinute, now)
	m.requests.used += float64(max(0, use.Requests-m.elsewhere.Requests))
	m.tokens.used += float64(max(0, use.Tokens-m.elsewhere.Tokens))
	m.elsewhere = use
}
