package inflight

import (
	"context"
	"errors"
	"sync"

	"codex-proxy/proxy/responses/wire"
)

// ErrCancelled ends a response that a client has cancelled.
var ErrCancelled = errors.New("the response was cancelled")

// Responses are the responses in flight of this process, by id: they can be cancelled.
type Responses struct {
	mu   sync.Mutex
	byID map[string]*Response
}

// Response is a response in flight. The goroutine of its request writes last before it
// closes over; it is read after that.
type Response struct {
	owner  string
	Cancel context.CancelCauseFunc
	Over   chan struct{}
	End    func()         // closes over, once
	Last   *wire.Response // as it ended; nil: its turn did not begin
	Log    int64          // bytes of its events, if it is a streamed background response
	Tail   []byte         // its last events, which may not be in the log yet; nil: they are
}

// New returns an empty set.
func New() *Responses { return &Responses{byID: map[string]*Response{}} }

// Enter adds a response under its id until leave is called. The context ends when the
// response is cancelled.
func (f *Responses) Enter(ctx context.Context, id, owner string) (_ context.Context, r *Response, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r = &Response{owner: owner, Cancel: cancel, Over: make(chan struct{})}
	r.End = sync.OnceFunc(func() { close(r.Over) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byID[id] = r
	return ctx, r, func() {
		f.mu.Lock()
		delete(f.byID, id)
		f.mu.Unlock()
		r.End()
		cancel(nil)
	}
}

// Ended records how the response ended.
func (r *Response) Ended(last wire.Response) { r.Last = &last }

// Cancel cancels the response with that id, if it is in flight.
func (f *Responses) Cancel(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.byID[id]; r != nil {
		r.Cancel(ErrCancelled)
	}
}

// IsOver reports whether the response has ended.
func (r *Response) IsOver() bool {
	select {
	case <-r.Over:
		return true
	default:
		return false
	}
}

// Find returns the response with that id, if it is in flight and belongs to that owner.
func (f *Responses) Find(id, owner string) *Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.byID[id]; r != nil && r.owner == owner {
		return r
	}
	return nil
}
