package units

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
)

var errClosed = errors.New("the manager is closed")

// Manager asks systemd to start and stop units. Each call but StartWith opens and
// closes a bus connection of its own: calls are rare, and a restart of the bus needs no
// repair. A Manager is safe for concurrent use.
type Manager struct {
	*caller
	jobs
}

// jobs are the jobs of systemd that a Manager asks for.
type jobs struct{ *caller }

// caller makes the calls of a Manager.
type caller struct {
	once     sync.Once
	closed   chan struct{}
	requests chan struct{}  // for jobs, to mostRequests
	idle     chan *launcher // of StartWith, between its calls
}

// mostRequests bounds the jobs that are requested at the same time. systemd answers one call after the other, so that
// the last of many callers would wait longer than bus.CallTimeout.
const mostRequests = 8

// NewManager returns a manager. It needs no bus until its first call.
func NewManager() *Manager {
	c := &caller{
		closed: make(chan struct{}), requests: make(chan struct{}, mostRequests), idle: make(chan *launcher, maxIdle),
	}
	return &Manager{c, jobs{c}}
}

// Close makes calls in flight and later calls fail. Jobs that systemd has accepted
// go on.
func (m *caller) Close() {
	m.once.Do(func() { close(m.closed) })
	m.dropIfClosed()
}

// Start starts the unit and waits until systemd reports the result, or ctx ends. A
// unit that waits for its automatic restart starts at once.
func (m jobs) Start(ctx context.Context, unit string) error {
	return m.job(ctx, "start", "StartUnit", unit)
}

// Stop stops the unit and waits as Start does.
func (m jobs) Stop(ctx context.Context, unit string) error {
	return m.job(ctx, "stop", "StopUnit", unit)
}

// Restart stops and starts the unit, or just starts it when it is down, and
// waits as Start does.
func (m jobs) Restart(ctx context.Context, unit string) error {
	return m.job(ctx, "restart", "RestartUnit", unit)
}

// Enqueue asks systemd to start the unit, and does not wait for the start. A unit that runs
// goes on.
func (m jobs) Enqueue(ctx context.Context, unit string) error {
	return m.call(ctx, "start "+unit, "StartUnit", unit, "replace")
}

// ResetFailed clears the failed state of the unit, its restart counter, its
// growing restart delay and its start limit. A unit that isn't loaded has
// nothing to clear.
func (m *Manager) ResetFailed(ctx context.Context, unit string) error {
	return m.ask(ctx, "reset "+unit, func(ctx context.Context, b *bus.Conn) error {
		err := b.Call(ctx, "ResetFailedUnit", unit).Err
		if bus.IsError(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return nil
		}
		return bus.Refusal(err)
	})
}

// job requests a job and waits for its end.
func (m jobs) job(ctx context.Context, verb, method, unit string) error {
	jobs := newJobResults()
	requested, err := m.request(ctx)
	if err != nil {
		return fmt.Errorf("cannot %s %s: %w", verb, unit, err)
	}
	defer requested()
	err = m.with(ctx, jobs.signal, func(ctx context.Context, b *bus.Conn) error {
		if err := reportJobs(ctx, b); err != nil {
			return bus.Unanswered(err)
		}
		return jobs.run(ctx, b, method, unit, requested)
	})
	if err != nil {
		return fmt.Errorf("cannot %s %s: %w", verb, unit, err)
	}
	return nil
}

// request waits for its turn to request a job, and returns a function that ends the turn.
func (m *caller) request(ctx context.Context) (requested func(), err error) {
	select {
	case m.requests <- struct{}{}:
		return sync.OnceFunc(func() { <-m.requests }), nil
	case <-m.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// call is ask for a call without an answer.
func (m *caller) call(ctx context.Context, what, method string, args ...any) error {
	return m.ask(ctx, what, func(ctx context.Context, b *bus.Conn) error {
		return bus.Refusal(b.Call(ctx, method, args...).Err)
	})
}

// unheard is for calls that need no signals.
func unheard(*dbus.Signal) {}

// ask is with for calls that need no signals. Its error begins with "cannot" and the description of the call.
func (m *caller) ask(ctx context.Context, what string, do func(context.Context, *bus.Conn) error) error {
	if err := m.with(ctx, unheard, do); err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	return nil
}

// with runs do on a connection of its own.
func (m *caller) with(ctx context.Context, deliver func(*dbus.Signal),
	do func(context.Context, *bus.Conn) error) error {
	return m.bounded(ctx, func(ctx context.Context) error {
		b, err := bus.Connect(ctx, bus.LastHelloTimeout, deliver)
		if err != nil {
			return bus.Unanswered(err)
		}
		defer b.Close()
		return do(ctx, b)
	})
}

// bounded runs do, and ends its context when the manager is closed.
func (m *caller) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-m.closed:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
