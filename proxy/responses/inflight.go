package responses

import (
	"context"
	"sync"

	"codex-proxy/proxy/openai"
)

// inFlight are the responses in flight of this process, by id: they can be cancelled.
type inFlight struct {
	mu   sync.Mutex
	byID map[string]*running
}

// running is a response in flight. The goroutine of its request writes last before it
// closes over; it is read after that.
type running struct {
	owner  string
	cancel context.CancelCauseFunc
	over   chan struct{}
	end    func()           // closes over, once
	last   *openai.Response // as it ended; nil: its turn did not begin
	log    int64            // bytes of its events, if it is a streamed background response
	tail   []byte           // its last events, which may not be in the log yet; nil: they are
}

// enter adds a response under its id until leave is called. The context ends when the
// response is cancelled.
func (f *inFlight) enter(ctx context.Context, id, owner string) (_ context.Context, r *running, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r = &running{owner: owner, cancel: cancel, over: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.over) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byID[id] = r
	return ctx, r, func() {
		f.mu.Lock()
		delete(f.byID, id)
		f.mu.Unlock()
		r.end()
		cancel(nil)
	}
}

// ended records how the response ended.
func (r *running) ended(last openai.Response) { r.last = &last }

// cancel cancels the response with that id, if it is in flight.
func (f *inFlight) cancel(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.byID[id]; r != nil {
		r.cancel(errCancelled)
	}
}

// isOver reports whether the response has ended.
func (r *running) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// find returns the response with that id, if it is in flight and belongs to that owner.
func (f *inFlight) find(id, owner string) *running {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.byID[id]; r != nil && r.owner == owner {
		return r
	}
	return nil
}
