package connections

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"codex-proxy/internal/direct"
	"codex-proxy/internal/fault"
)

// acceptLoops are the loops that accept connections, for liveness.
type acceptLoops struct {
	mu  sync.Mutex
	all []*loopListener
}

// add wraps a listener that has deadlines, as TCP and unix sockets do. The loop of
// another listener cannot be examined.
func (a *acceptLoops) add(l net.Listener) net.Listener {
	wakeable, ok := l.(deadliner)
	if !ok {
		return l
	}
	loop := &loopListener{deadliner: wakeable, passed: make(chan struct{}, 1), closed: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, loop)
	return loop
}

// AcceptLoopsAlive returns nil when every loop that accepts connections has moved
// before ctx ends.
func (d *door) AcceptLoopsAlive(ctx context.Context) error {
	d.loops.mu.Lock()
	all := d.loops.all
	d.loops.mu.Unlock()
	errs := make([]error, len(all))
	var g sync.WaitGroup
	for i, loop := range all {
		g.Go(func() { errs[i] = loop.alive(ctx) })
	}
	g.Wait()
	return errors.Join(errs...)
}

type deadliner interface {
	net.Listener
	SetDeadline(time.Time) error
}

// loopListener is a listener that can wake its accepting loop without a connection: a deadline in the past ends its
// wait.
type loopListener struct {
	deadliner
	passed chan struct{} // holds a token after the loop moved
	once   sync.Once
	closed chan struct{} // closed at the end of the loop
}

// Accept implements net.Listener.
func (l *loopListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.deadliner.Accept()
		if err == nil {
			return direct.Conn(conn), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if errors.Is(err, net.ErrClosed) {
				l.once.Do(func() { close(l.closed) })
			}
			return nil, err
		}
		fault.Point("accept")
		// Cleared before the token: a deadline that is set after it is a new question.
		if err := l.SetDeadline(time.Time{}); err != nil && !errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		select {
		case l.passed <- struct{}{}:
		default:
		}
	}
}

// alive wakes the loop and waits until it has moved.
func (l *loopListener) alive(ctx context.Context) error {
	select {
	case <-l.passed: // of a call that ended with its ctx
	default:
	}
	if err := l.SetDeadline(time.Now()); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot wake the loop that accepts on %s: %w", l.Addr(), err)
	}
	select {
	case <-l.passed:
		return nil
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the loop that accepts on %s does not answer: %w", l.Addr(), ctx.Err())
	}
}
