package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Alive returns nil when every accepting loop has moved, and a request has passed through all of the handlers, before
// ctx ends. The request does not use the network: the daemon may be in a network namespace without its own address.
func (s *Server) Alive(ctx context.Context) error {
	var loops, handlers error
	var g sync.WaitGroup
	g.Go(func() { loops = s.Connections.AcceptLoopsAlive(ctx) })
	g.Go(func() { handlers = s.trips.await(ctx, s.base, s.http.Handler) })
	g.Wait()
	return errors.Join(loops, handlers)
}

// trips sends GET /livez through the handlers, one request at a time.
type trips struct {
	mu   sync.Mutex
	over chan struct{} // closed at the end of the running trip; nil: none runs
}

// await waits for the end of the trip that runs, or of a new one. A trip that hangs stays
// the only one.
func (t *trips) await(ctx, base context.Context, handler http.Handler) error {
	select {
	case <-t.start(func() { livez(base, handler) }):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the HTTP handlers do not answer GET /livez: %w", ctx.Err())
	}
}

func livez(base context.Context, handler http.Handler) {
	defer func() { _ = recover() }() // logged by the handlers, which answered all the same
	req, err := http.NewRequestWithContext(base, http.MethodGet, "/livez", nil)
	if err != nil {
		return // not possible with these constants
	}
	handler.ServeHTTP(discard{}, req)
}

func (t *trips) start(trip func()) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	over := make(chan struct{})
	t.over = over
	go func() {
		trip()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = nil
		close(over)
	}()
	return over
}

// discard is a ResponseWriter that drops the answer.
type discard struct{}

// Header implements http.ResponseWriter.
func (discard) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (discard) WriteHeader(int) {}
