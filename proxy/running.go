package proxy

import (
	"context"
	"sync"

	"codex-proxy/proxy/openai"
)

// responsesRunning are the responses in flight, by id: they can be cancelled.
type responsesRunning struct {
	mu   sync.Mutex
	byID map[string]*running
}

// running is one of them. Its fields are written before over is closed, by the
// goroutine of its request, and read after that.
type running struct {
	owner  string
	cancel context.CancelCauseFunc
	over   chan struct{}
	last   *openai.Response // as it ended; nil: it has not come to that
}

// enter makes a response known under its id until leave is called. The context
// ends when it is cancelled.
func (rs *responsesRunning) enter(ctx context.Context, id, owner string) (_ context.Context, r *running, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r = &running{owner: owner, cancel: cancel, over: make(chan struct{})}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID == nil {
		rs.byID = map[string]*running{}
	}
	rs.byID[id] = r
	return ctx, r, func() {
		rs.mu.Lock()
		delete(rs.byID, id)
		rs.mu.Unlock()
		close(r.over)
		cancel(nil)
	}
}

// ended notes how the response ended.
func (r *running) ended(last openai.Response) { r.last = &last }

// find is the response with that id, if it is in flight and of that owner.
func (rs *responsesRunning) find(id, owner string) *running {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byID[id]; r != nil && r.owner == owner {
		return r
	}
	return nil
}
