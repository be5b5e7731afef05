package workspaces

import (
	"sync"

	"codex-proxy/runner/workspace"
)

// removals has the workspaces that are about to be removed. A transaction of the store locks it; nothing is locked
// under it.
type removals struct {
	mu   sync.Mutex
	gone map[int]chan struct{} // each is closed when it has gone, or stays
}

func (r *removals) begin(number int) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := make(chan struct{})
	if r.gone == nil {
		r.gone = map[int]chan struct{}{}
	}
	r.gone[number] = gone
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.gone, number)
		close(gone)
	}
}

// mark marks the workspaces that are about to be removed as leased, and returns a channel that is closed when one of
// them has gone; nil without such a workspace.
func (r *removals) mark(p workspace.Pool) (gone <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, slot := range p {
		if c := r.gone[slot.Number]; c != nil {
			p[i].Session, gone = "swept", c
		}
	}
	return gone
}
