package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"codex-proxy/internal/direct"
	"codex-proxy/proxy/fault"
)

// pulse is how the accepting loops and the handlers are asked whether they move.
type pulse struct {
	mu    sync.Mutex
	doors []*door
	trip  chan struct{} // closed at the end of the running trip
}

// listen puts a door before a listener that has deadlines, as those of TCP and
// unix sockets have; another one cannot be asked.
func (p *pulse) listen(l net.Listener) net.Listener {
	wakeable, ok := l.(deadliner)
	if !ok {
		return l
	}
	d := &door{deadliner: wakeable, passed: make(chan struct{}, 1), closed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doors = append(p.doors, d)
	return d
}

func (p *pulse) all() []*door {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doors
}

// tripped returns the end of the trip that is under way, or of a new one.
func (p *pulse) tripped(trip func()) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trip != nil {
		return p.trip
	}
	done := make(chan struct{})
	p.trip = done
	go func() {
		trip()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.trip = nil
		close(done)
	}()
	return done
}

type deadliner interface {
	net.Listener
	SetDeadline(time.Time) error
}

// door is a listener whose accepting loop can be made to look up without a
// connection: a deadline in the past ends its wait.
type door struct {
	deadliner
	passed chan struct{} // the loop looked up, one pending at most
	once   sync.Once
	closed chan struct{} // the loop has ended, which others see to
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.deadliner.Accept()
		if err == nil {
			return direct.Conn(conn), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, net.ErrClosed) {
				d.once.Do(func() { close(d.closed) })
			}
			return nil, err
		}
		fault.Point("accept")
		// Cleared before it is told: a deadline that is set from now on is a new question.
		if err := d.SetDeadline(time.Time{}); err != nil && !errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		select {
		case d.passed <- struct{}{}:
		default:
		}
	}
}

// alive wakes the loop and waits for it to pass by.
func (d *door) alive(ctx context.Context) error {
	select {
	case <-d.passed: // of a question that had no patience
	default:
	}
	if err := d.SetDeadline(time.Now()); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot wake the loop that accepts on %s: %w", d.Addr(), err)
	}
	select {
	case <-d.passed:
		return nil
	case <-d.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the loop that accepts on %s does not answer: %w", d.Addr(), ctx.Err())
	}
}
