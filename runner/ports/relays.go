package ports

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Idle is how long a relay may pass nothing: it ends then. Peers of a WebSocket, for example, mostly send pings.
const Idle = time.Hour

// ErrClosed means that there are no further relays.
var ErrClosed = errors.New("the forward of the port has ended")

// Relays are the relays of a program that have not ended. Its methods are safe for concurrent use.
type Relays struct {
	// Session is set where the TCP connections lead to servers in a session, and not to their clients.
	Session bool

	mu     sync.Mutex
	open   map[*relay]struct{}
	closed bool
	ended  sync.WaitGroup
}

// Relay copies both directions of a connection until both have ended, and passes each end on. It closes both sides. If
// one of them fails, if nothing passes for Idle, or at Close, it cuts the other side: its peer gets a reset, and so
// cannot take that for an end of the data.
func (r *Relays) Relay(tcp TCP, stream Stream) error {
	one := newRelay(tcp, stream, r.Session)
	if !r.add(one) {
		one.cut()
		return ErrClosed
	}
	defer r.remove(one)
	return one.run()
}

func (r *Relays) add(one *relay) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.open == nil {
		r.open = map[*relay]struct{}{}
	}
	r.open[one] = struct{}{}
	r.ended.Add(1)
	return true
}

func (r *Relays) remove(one *relay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, one)
	r.ended.Done()
}

// Close ends all relays, and returns when they have ended. A relay with a server that has ended its direction first
// gets the time to pass on the bytes of the server.
func (r *Relays) Close(patience time.Duration) {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, one := range all {
		select {
		case <-one.answered:
		case <-ctx.Done():
		}
		one.cut()
	}
	r.ended.Wait()
}
