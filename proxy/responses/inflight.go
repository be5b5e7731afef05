package responses

import (
	"context"
	"sync"

	"codex-proxy/proxy/openai"
)

// inFlight are the responses in flight, by id: they can be cancelled.
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
	last   *openai.Response // as it ended; nil: its turn did not begin
}

// enter adds a response under its id until leave is called. The context ends when the
// response is cancelled.
func (f *inFlight) enter(ctx context.Context, id, owner string) (_ context.Context, r *running, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r = &running{owner: owner, cancel: cancel, over: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byID[id] = r
	return ctx, r, func() {
		f.mu.Lock()
		delete(f.byID, id)
		f.mu.Unlock()
		close(r.over)
		cancel(nil)
	}
}

// ended records how the response ended.
func (r *running) ended(last openai.Response) { r.last = &last }

// find returns the response with that id, if it is in flight and belongs to that owner.
func (f *inFlight) find(id, owner string) *running {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.byID[id]; r != nil && r.owner == owner {
		return r
	}
	return nil
}
