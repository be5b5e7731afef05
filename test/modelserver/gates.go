package modelserver

import (
	"context"
	"sync"
)

// gates are named points where an answer waits for the test. A released gate stays open. Waiting and
// releasing may come in either order.
type gates struct {
	mu     sync.Mutex
	opened map[string]chan struct{}
}

func (g *gates) init() { g.opened = map[string]chan struct{}{} }

func (g *gates) named(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.opened[name]
	if !ok {
		c = make(chan struct{})
		g.opened[name] = c
	}
	return c
}

func (g *gates) release(name string) {
	c := g.named(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

func (g *gates) wait(ctx context.Context, name string) error {
	select {
	case <-g.named(name):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release opens a gate: every answer that waits at it, or reaches it later, goes on.
func (s *Server) Release(gate string) { s.gates.release(gate) }
