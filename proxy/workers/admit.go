package workers

import (
	"context"
	"sync"
	"time"

	"codex-proxy/probes"
)

// Acquire returns a place on a ready worker with the model, after waiting for it
// in the queue if need be. The error is one of the sentinels, why there was no
// place, or ctx's cause; then the request has left the queue.
func (p *Pool) Acquire(ctx context.Context, a Ask) (*Lease, error) {
	w := p.queue.enter(a)
	if a.again() {
		a.Lost.Release() // not before, so that Inflight never misses it
	}
	lease, err := p.await(ctx, w)
	if err != nil {
		p.onChange() // Inflight has counted it
	}
	return lease, err
}

func (p *Pool) await(ctx context.Context, w *waiter) (*Lease, error) {
	if len(w.answer) > 0 { // mostly there is a place
		return p.justInTime(ctx, <-w.answer)
	}
	p.onChange() // other processes send their turns to one in which a request waits
	timeout := time.NewTimer(p.queue.Timeout)
	defer timeout.Stop()
	select {
	case got := <-w.answer:
		return got.lease, got.err
	case <-ctx.Done():
	case <-timeout.C:
	}
	verdict, waited := p.queue.leave(w)
	switch {
	case !waited:
		return p.justInTime(ctx, <-w.answer)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, verdict
	}
}

// justInTime is for an answer that came when the waiting had just ended.
func (p *Pool) justInTime(ctx context.Context, got answer) (*Lease, error) {
	if ctx.Err() == nil {
		return got.lease, got.err
	}
	if got.lease != nil {
		got.lease.Release()
	}
	return nil, context.Cause(ctx)
}

// EstimatedWait estimates how long a request that came now would wait for a place:
// what waits, shared among the places of the ready workers, at the pace of the
// recent turns. It is 0 while nothing is known.
func (p *Pool) EstimatedWait() time.Duration {
	places := 0
	for _, w := range p.workers {
		if s, _ := w.view(); s.reason() == probes.Ready {
			places += w.settings.MaxInflight
		}
	}
	if places == 0 {
		return 0
	}
	depth, _ := p.queue.look(time.Now())
	return p.pace.mean() * time.Duration(depth+1) / time.Duration(places)
}

// queueReport is what the probes publish of the queue.
func (p *Pool) queueReport(now time.Time) probes.Queue {
	depth, oldest := p.queue.look(now)
	return probes.Queue{Depth: depth, Limit: p.queue.Limit, OldestWaitMS: float64(oldest.Microseconds()) / 1000}
}

// pace is the moving mean of how long turns hold their places.
type pace struct {
	mu   sync.Mutex
	held time.Duration
}

// paceWeight is how many turns it takes, about, to forget an old pace.
const paceWeight = 16

func (p *pace) add(held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == 0 {
		p.held = held
	}
	p.held += (held - p.held) / paceWeight
}

func (p *pace) mean() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
