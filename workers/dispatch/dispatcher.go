// Package dispatch gives the slots of the workers to requests: at once, or in the order of the queue. A picker chooses
// the worker, by load or by the quota of the accounts.
package dispatch

import (
	"context"
	"sync"
	"time"

	"codex-proxy/probes"
)

// Dispatcher gives the slots of the workers to requests. Its methods are safe for concurrent use.
type Dispatcher struct {
	picker   *Picker
	queue    *queue
	onChange func()
}

// New creates a dispatcher with an empty queue. onChange is called after each change of the work that waits, from any
// goroutine.
func New(waiting Queue, picker *Picker, onChange func()) *Dispatcher {
	return &Dispatcher{picker: picker, queue: newQueue(waiting, picker.Pick), onChange: onChange}
}

// Acquire returns a lease on a ready worker with the model, after a wait in the
// queue if need be. The error is one of the sentinels, the reason why there was no
// slot, ctx's cause, or the cause of OnSilence; then the request has left the queue.
func (d *Dispatcher) Acquire(ctx context.Context, a Ask) (*Lease, error) {
	w := d.queue.enter(a)
	if a.again() {
		a.Lost.Release() // not before, so that Inflight never misses the request
	}
	lease, err := d.await(ctx, w)
	if err != nil {
		d.onChange() // Inflight has counted the request
	}
	return lease, err
}

func (d *Dispatcher) await(ctx context.Context, w *waiter) (*Lease, error) {
	if len(w.answer) > 0 { // mostly there is a slot
		return unlessEnded(ctx, <-w.answer)
	}
	defer w.expiry.Stop()
	d.onChange() // other processes send their turns to one in which a request waits
	silence, stop := w.ask.silence()
	defer stop()
	for {
		select {
		case got := <-w.answer:
			return got.lease, got.err
		case <-ctx.Done():
			return d.abandon(w, context.Cause(ctx))
		case <-silence:
			if err := w.ask.OnSilence(); err != nil {
				return d.abandon(w, err)
			}
		case <-w.expiry.C:
			if verdict := d.queue.expire(w); verdict != nil {
				return nil, verdict
			}
		}
	}
}

// abandon takes the request out of the queue, or releases the slot that it got
// meanwhile, and returns err.
func (d *Dispatcher) abandon(w *waiter, err error) (*Lease, error) {
	if !d.queue.leave(w) {
		got := <-w.answer
		got.lease.Release()
	}
	return nil, err
}

// unlessEnded returns the answer, or releases its lease if the request has ended
// meanwhile.
func unlessEnded(ctx context.Context, got answer) (*Lease, error) {
	if ctx.Err() == nil {
		return got.lease, got.err
	}
	if got.lease != nil {
		got.lease.Release()
	}
	return nil, context.Cause(ctx)
}

// Waiting is how many requests wait for a slot. It does not wait for the queue,
// which may be in Settings.Claim for one of them.
func (d *Dispatcher) Waiting() int { return int(d.queue.waiting.Load()) }

// Wake gives slots to the requests that wait, if any have become free.
func (d *Dispatcher) Wake() { d.queue.wake() }

// EstimatedWait is about how long a new request would wait for a slot: the
// requests that wait, shared among the slots of the ready workers, at the pace of
// the recent turns. It is 0 while nothing is known.
func (d *Dispatcher) EstimatedWait() time.Duration {
	slots := 0
	for _, w := range d.picker.workers {
		slots += w.Slots()
	}
	if slots == 0 {
		return 0
	}
	depth, _ := d.queue.look(time.Now())
	return d.picker.holdTime.mean() * time.Duration(depth+1) / time.Duration(slots)
}

// Drain forbids new turns for good and refuses the requests that wait for their
// first slot.
func (d *Dispatcher) Drain() {
	d.picker.draining.Store(true)
	d.queue.wake()
	d.onChange()
}

// Draining reports whether Drain was called.
func (d *Dispatcher) Draining() bool { return d.picker.draining.Load() }

// Inflight adds the requests that wait to the turns in flight, which turns counts. A lost turn moves from its worker to
// the queue; the lock of the queue keeps it from being in neither of them meanwhile.
func (d *Dispatcher) Inflight(turns func() int) int {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return d.queue.depth() + turns()
}

// Report adds to the snapshot of the workers the state of the queue, and which accounts are out.
func (d *Dispatcher) Report(snap *probes.Snapshot) {
	snap.Queue = d.queue.report(snap.At)
	d.picker.rotation.report(snap)
}

// holdTimeWeight is about how many turns it takes for an old pace to fade.
const holdTimeWeight = 16

// holdTime is the moving mean of how long turns hold their slots.
type holdTime struct {
	mu   sync.Mutex
	held time.Duration
}

func (p *holdTime) add(held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == 0 {
		p.held = held
	}
	p.held += (held - p.held) / holdTimeWeight
}

func (p *holdTime) mean() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
