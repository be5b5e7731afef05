package modelproxy

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

const (
	// strangerLimit bounds the connections that have not shown the token. On a network that codex shares with the
	// machine any user can make some, and they would else take the memory and the descriptors of this process.
	strangerLimit = 64
	// codexLimit bounds those that have: codex needs a few, and its tools know the token, too.
	codexLimit = 512
)

// guard bounds the connections of a server. The oldest stranger leaves for a new one, so that codex always comes in.
type guard struct {
	mu        sync.Mutex
	strangers []net.Conn // the oldest first
	known     map[net.Conn]bool
}

func newGuard() *guard { return &guard{known: map[net.Conn]bool{}} }

type connKey struct{}

// watch has the server report its connections to the guard.
func (g *guard) watch(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{},
			c)
	}
	s.ConnState = g.changed
}

func (g *guard) changed(c net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(g.strangers) == strangerLimit {
			_ = g.strangers[0].Close()
			g.strangers = slices.Delete(g.strangers, 0, 1)
		}
		g.strangers = append(g.strangers, c)
	case http.StateClosed, http.StateHijacked:
		g.forget(c)
		delete(g.known, c)
	}
}

func (g *guard) forget(c net.Conn) {
	if i := slices.Index(g.strangers, c); i >= 0 {
		g.strangers = slices.Delete(g.strangers, i, i+1)
	}
}

// admit reports whether a request that has shown the token may go on: its connection is codex's.
func (g *guard) admit(r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	g.mu.Lock()
	defer g.mu.Unlock()
	if c == nil || g.known[c] {
		return true
	}
	g.forget(c)
	if len(g.known) == codexLimit {
		return false
	}
	g.known[c] = true
	return true
}
