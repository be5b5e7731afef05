package modelproxy

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/upstream"
	"codex-proxy/internal/nudge"
)

// observation counts the requests of codex.
type observation struct {
	mu       sync.Mutex
	requests map[string]uint64 // by their kind
	tokens   map[string]brokerstate.Tokens
	accounts []string                      // that have paths of their own
	limits   map[string]brokerstate.Limits // by those accounts
	began    time.Time
	hidden   brokerstate.State // its hidden uses alone
	line     func() brokerstate.Line
	changed  nudge.Nudge
}

// of observes the connections of a transport, which the endpoint may close at any time.
func (o *observation) of(t *upstream.Transport) {
	o.line, t.Changed = t.Line, o.changed.Touch
}

// observe counts the requests that go on to the endpoint.
func (o *observation) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := kindOf(r)
		o.mu.Lock()
		o.requests[kind]++
		o.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// limited records the quota of an account that has a path of its own: codex does not know which one it is.
func (o *observation) limited(account string, h http.Header) {
	text := limitsOf(h)
	if account == "" || text == nil {
		return
	}
	o.mu.Lock()
	o.limits[account] = brokerstate.Limits{At: time.Now(), Limits: text}
	o.mu.Unlock()
	o.changed.Touch()
}

// State returns the state of the proxy, without its endpoint.
func (l *Proxy) State() *brokerstate.State {
	l.seen.mu.Lock()
	s := &brokerstate.State{Requests: maps.Clone(l.seen.requests), Tokens: maps.Clone(l.seen.tokens),
		Accounts: l.seen.accounts, Limits: maps.Clone(l.seen.limits),
		Began: l.seen.began, Hidden: slices.Clone(l.seen.hidden.Hidden)}
	l.seen.mu.Unlock()
	s.Streams = l.flights.count()
	if l.seen.line != nil {
		s.Line = l.seen.line()
	}
	return s
}

// Changed has a token when State may have changed.
func (l *Proxy) Changed() <-chan struct{} { return l.seen.changed }
