package modelproxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// flights counts the requests in flight.
type flights struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when the count reaches 0; nil: nobody waits
}

func (f *flights) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n += n; f.n == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

func (f *flights) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// rest returns a channel that is closed when no request is in flight.
func (f *flights) rest() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := make(chan struct{})
	if f.n == 0 {
		close(idle)
		return idle
	}
	f.idle = idle
	return idle
}

// Alive returns if the proxy is not stuck: it is the check of a watchdog.
func (l *Proxy) Alive(context.Context) error {
	l.flights.add(0)
	return nil
}

// RunAndDrain is Run, and finishes the requests in flight after the end of ctx. It accepts new ones until none is in
// flight, for the time accept at most; what is still in flight after the time finish is cut.
func (l *Proxy) RunAndDrain(ctx context.Context, listener net.Listener, accept, finish time.Duration) error {
	server := l.server()
	defer l.converse(ctx)()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l.accepting(listener)) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	server.SetKeepAlivesEnabled(false) // a client that keeps a connection would send a request into its end
	bound := time.NewTimer(accept)
	defer bound.Stop()
	select {
	case err := <-served:
		return err
	case <-l.flights.rest():
	case <-bound.C:
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finish)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
