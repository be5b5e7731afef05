package workers

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
)

// Ask is the demand of a request on the pool.
type Ask struct {
	Model string
	// Key is the name of the request's API key. All requests without a name share
	// one key.
	Key string
	// Accounts are the only accounts that may serve the request, by the names of their
	// workers; nil: all may.
	Accounts []string
	// Lost is the lease on which the request's turn was lost; Acquire releases it.
	// Such a request still counts as in flight: it waits ahead of all others, and
	// neither the queue's limit nor a drain refuses it.
	Lost *Lease
	// Arrived orders the requests that wait again.
	Arrived time.Time
	// Avoid are connections that a turn of this request was lost on.
	Avoid []*appserver.Conn
	// Decoding is how many bytes codex needs to decode the images of the request.
	Decoding int64
	// Prefer names the worker that serves the request if it has a slot just now;
	// empty is no preference.
	Prefer string
	// Conversation identifies the conversation; empty: none does. It matters while the
	// quota of accounts decides.
	Conversation string
	// Refused are the accounts that have refused this turn for their quota.
	Refused []string
	// OnSilence is called each Keepalive while the request waits, from the goroutine of
	// Acquire; its error ends the wait. Nil: nothing is called.
	OnSilence func() error
	Keepalive time.Duration
}

// again reports whether the request waits again, for its turn was lost.
func (a Ask) again() bool { return a.Lost != nil }

// allows reports whether the account may serve the request.
func (a Ask) allows(account string) bool {
	return a.Accounts == nil || slices.Contains(a.Accounts, account)
}

// refusedBy reports whether the account has refused this turn.
func (a Ask) refusedBy(account string) bool { return slices.Contains(a.Refused, account) }

// dispatcher gives the slots of the workers to requests.
type dispatcher struct {
	workers  roster
	queue    *queue
	pace     pace
	rotation *rotation   // nil: the quota of accounts decides nothing
	draining atomic.Bool // Pool.Drain was called
	onChange func()
}

// Acquire returns a lease on a ready worker with the model, after a wait in the
// queue if need be. The error is one of the sentinels, the reason why there was no
// slot, ctx's cause, or the cause of OnSilence; then the request has left the queue.
func (d *dispatcher) Acquire(ctx context.Context, a Ask) (*Lease, error) {
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

func (d *dispatcher) await(ctx context.Context, w *waiter) (*Lease, error) {
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

// silence ticks each time OnSilence is due, until stop is called.
func (a Ask) silence() (ticks <-chan time.Time, stop func()) {
	if a.OnSilence == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(a.Keepalive)
	return ticker.C, ticker.Stop
}

// abandon takes the request out of the queue, or releases the slot that it got
// meanwhile, and returns err.
func (d *dispatcher) abandon(w *waiter, err error) (*Lease, error) {
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
func (d *dispatcher) Waiting() int { return int(d.queue.waiting.Load()) }

// Wake gives slots to the requests that wait, if any have become free.
func (d *dispatcher) Wake() { d.queue.wake() }

// EstimatedWait is about how long a new request would wait for a slot: the
// requests that wait, shared among the slots of the ready workers, at the pace of
// the recent turns. It is 0 while nothing is known.
func (d *dispatcher) EstimatedWait() time.Duration {
	slots := 0
	for _, w := range d.workers {
		if s, _ := w.view(); s.reason() == probes.Ready {
			slots += w.settings.MaxInflight
		}
	}
	if slots == 0 {
		return 0
	}
	depth, _ := d.queue.look(time.Now())
	return d.pace.mean() * time.Duration(depth+1) / time.Duration(slots)
}
