package modelproxy

import (
	"maps"
	"net/http"
	"sync"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/internal/nudge"
)

// observation counts the requests of codex.
type observation struct {
	mu       sync.Mutex
	requests map[string]uint64 // by their kind
	line     func() brokerstate.Line
	changed  nudge.Nudge
}

// observe counts the requests that go on to the endpoint.
func (o *observation) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := kindOf(r)
		o.mu.Lock()
		o.requests[kind]++
		o.mu.Unlock()
		defer o.changed.Touch()
		next.ServeHTTP(w, r)
	})
}

// State returns the state of the proxy, without its endpoint.
func (l *Proxy) State() *brokerstate.State {
	l.seen.mu.Lock()
	requests := maps.Clone(l.seen.requests)
	l.seen.mu.Unlock()
	s := &brokerstate.State{Requests: requests, Streams: l.flights.count()}
	if l.seen.line != nil {
		s.Line = l.seen.line()
	}
	return s
}

// Changed has a token when State may have changed.
func (l *Proxy) Changed() <-chan struct{} { return l.seen.changed }
