package units

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/godbus/dbus/v5"
)

var errClosed = errors.New("the manager is closed")

// Manager asks systemd to start and stop units. Each call but StartWith opens and
// closes a bus connection of its own: calls are rare, and a restart of the bus needs no
// repair. A Manager is safe for concurrent use.
type Manager struct {
	once     sync.Once
	closed   chan struct{}
	requests chan struct{}  // for jobs, to mostRequests
	idle     chan *launcher // of StartWith, between its calls
}

// mostRequests bounds the jobs that are requested at the same time. systemd answers one call after the other, so that
// the last of many callers would wait longer than callTimeout.
const mostRequests = 8

// NewManager returns a manager. It needs no bus until its first call.
func NewManager() *Manager {
	return &Manager{
		closed: make(chan struct{}), requests: make(chan struct{}, mostRequests), idle: make(chan *launcher, maxIdle),
	}
}

// Close makes calls in flight and later calls fail. Jobs that systemd has accepted
// go on.
func (m *Manager) Close() {
	m.once.Do(func() { close(m.closed) })
	m.dropIfClosed()
}

// Start starts the unit and waits until systemd reports the result, or ctx ends. A
// unit that waits for its automatic restart starts at once.
func (m *Manager) Start(ctx context.Context, unit string) error {
	return m.job(ctx, "start", "StartUnit", unit)
}

// Stop stops the unit and waits as Start does.
func (m *Manager) Stop(ctx context.Context, unit string) error {
	return m.job(ctx, "stop", "StopUnit", unit)
}

// Restart stops and starts the unit, or just starts it when it is down, and
// waits as Start does.
func (m *Manager) Restart(ctx context.Context, unit string) error {
	return m.job(ctx, "restart", "RestartUnit", unit)
}

// Enqueue asks systemd to start the unit, and does not wait for the start. A unit that runs
// goes on.
func (m *Manager) Enqueue(ctx context.Context, unit string) error {
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		return refusal(b.manager(ctx, "StartUnit", unit, "replace").Err)
	})
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", unit, err)
	}
	return nil
}

// ResetFailed clears the failed state of the unit, its restart counter, its
// growing restart delay and its start limit. A unit that isn't loaded has
// nothing to clear.
func (m *Manager) ResetFailed(ctx context.Context, unit string) error {
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		err := b.manager(ctx, "ResetFailedUnit", unit).Err
		if isError(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return nil
		}
		return refusal(err)
	})
	if err != nil {
		return fmt.Errorf("cannot reset %s: %w", unit, err)
	}
	return nil
}

// job requests a job and waits for its end.
func (m *Manager) job(ctx context.Context, verb, method, unit string) error {
	jobs := newJobResults()
	requested, err := m.request(ctx)
	if err != nil {
		return fmt.Errorf("cannot %s %s: %w", verb, unit, err)
	}
	defer requested()
	err = m.with(ctx, jobs.signal, func(ctx context.Context, b *bus) error {
		if err := b.reportJobs(ctx); err != nil {
			return unanswered(err)
		}
		return jobs.run(ctx, b, method, unit, requested)
	})
	if err != nil {
		return fmt.Errorf("cannot %s %s: %w", verb, unit, err)
	}
	return nil
}

// request waits for its turn to request a job, and returns a function that ends the turn.
func (m *Manager) request(ctx context.Context) (requested func(), err error) {
	select {
	case m.requests <- struct{}{}:
		return sync.OnceFunc(func() { <-m.requests }), nil
	case <-m.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask is with for calls that need no signals.
func (m *Manager) ask(ctx context.Context, do func(context.Context, *bus) error) error {
	return m.with(ctx, func(*dbus.Signal) {}, do)
}

// with runs do on a connection of its own.
func (m *Manager) with(ctx context.Context, deliver func(*dbus.Signal), do func(context.Context, *bus) error) error {
	return m.bounded(ctx, func(ctx context.Context) error {
		b, err := connect(ctx, lastHelloTimeout, deliver)
		if err != nil {
			return unanswered(err)
		}
		defer b.close()
		return do(ctx, b)
	})
}

// bounded runs do, and ends its context when the manager is closed.
func (m *Manager) bounded(ctx context.Context, do func(context.Context) error) error {
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
