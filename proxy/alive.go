package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Alive returns nil when every accepting loop has looked up and a request has
// made its way through all of the handlers before ctx ends. The request does not
// come over the network: the daemon may be in a network namespace in which its
// own address does not exist.
func (s *Server) Alive(ctx context.Context) error {
	doors := s.pulse.all()
	errs := make([]error, len(doors)+1)
	var g sync.WaitGroup
	for i, d := range doors {
		g.Go(func() { errs[i] = d.alive(ctx) })
	}
	g.Go(func() { errs[len(doors)] = s.trip(ctx) })
	g.Wait()
	return errors.Join(errs...)
}

// trip sends GET /livez through the handlers. A trip that is stuck stays the
// only one: the next call waits for it instead of getting stuck, too.
func (s *Server) trip(ctx context.Context) error {
	select {
	case <-s.pulse.tripped(s.livez):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the HTTP handlers do not answer GET /livez: %w", ctx.Err())
	}
}

func (s *Server) livez() {
	defer func() { _ = recover() }() // logged by the handlers, which answered all the same
	req, err := http.NewRequestWithContext(s.base, http.MethodGet, "/livez", nil)
	if err != nil {
		return // not possible with these constants
	}
	s.http.Handler.ServeHTTP(nowhere{}, req)
}

// nowhere takes an answer that nobody reads: what it says of the workers is not
// the question, only that it comes.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}
