package runner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/workspace"
)

// tidy wakes keepBounds.
func (r *Runner) tidy() {
	select {
	case r.untidy <- struct{}{}:
	default:
	}
}

// keepBounds removes the mirrors and the workspaces beyond their bounds, if they are not in use, the least recently
// used first, until ctx is done.
func (r *Runner) keepBounds(ctx context.Context) {
	for {
		if err := errors.Join(r.boundMirrors(ctx), r.boundWorkspaces(ctx)); err != nil && ctx.Err() == nil {
			r.Logger.Error("cannot keep mirrors and workspaces within their bounds", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.untidy:
		}
	}
}

// unfetched is how long a repository may have no mirror before it is forgotten.
const unfetched = 10 * time.Minute

func (r *Runner) boundMirrors(ctx context.Context) error {
	all, err := r.Store.Repositories(ctx, store.Viewer{All: true})
	var size int64
	for _, m := range all {
		size += m.Bytes
	}
	count := len(all)
	for _, m := range all {
		void := m.Fetched.IsZero() && r.clock.Now().Sub(m.Used) > unfetched
		if count <= r.Repositories.Count && size <= r.Repositories.Disk && !void {
			continue
		}
		removed, failed := r.removeMirror(ctx, m.Key)
		if removed {
			count, size = count-1, size-m.Bytes
			r.recordEviction(EvictedRepository, m.Key, m.Bytes)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// removeMirror removes an unused mirror.
func (r *Runner) removeMirror(ctx context.Context, key string) (removed bool, err error) {
	if !r.claim(key) {
		return false, nil
	}
	defer r.unclaim(key)
	// From now on a request finds no commit in the mirror, and waits for its turn to fetch.
	if err := r.Store.Abandon(ctx, key); err != nil {
		if errors.Is(err, store.ErrState) {
			return false, nil
		}
		return false, err
	}
	if err := r.sweep(ctx, "repository", key); err != nil {
		return false, err
	}
	return true, r.Store.RemoveRepository(ctx, key)
}

// claim takes a mirror for its removal, if no request holds it.
func (r *Runner) claim(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.mirrors[key] != nil {
		return false
	}
	r.state.mirrors[key] = &mirror{busy: true, going: true}
	return true
}

func (r *Runner) unclaim(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.state.mirror(key)
	left.busy, left.going = false, false
	r.state.drop(key)
	r.state.change(r.wake)
}

// sweep runs the unit that removes something.
func (r *Runner) sweep(ctx context.Context, what, name string) error {
	if err := r.startJob(ctx, paths.SweepUnit(what, name)); err != nil {
		return fmt.Errorf("cannot remove the %s %s: %w", what, name, err)
	}
	return nil
}

func (r *Runner) boundWorkspaces(ctx context.Context) error {
	all, err := r.Store.Pool(ctx)
	for _, number := range all.Evict(workspace.Bounds{Slots: r.Workspaces, Bytes: r.WorkspaceDisk}) {
		err = errors.Join(err, r.removeWorkspace(ctx, number))
	}
	return err
}

// removeWorkspace removes a workspace, unless a session leases it meanwhile.
func (r *Runner) removeWorkspace(ctx context.Context, number int) error {
	defer r.sweeps.begin(number)()
	all, err := r.Store.Pool(ctx) // no lease of it can begin after this
	if err != nil {
		return err
	}
	for _, slot := range all {
		if slot.Number != number || slot.Session != "" {
			continue
		}
		if err := r.sweep(ctx, "slot", strconv.Itoa(number)); err != nil {
			return err
		}
		r.recordEviction(EvictedWorkspace, strconv.Itoa(number), slot.Bytes)
		return r.Store.RemoveWorkspace(ctx, number)
	}
	return nil
}

// sweeps has the workspaces that are about to go. It has its own lock, as a transaction of the store reads it.
type sweeps struct {
	mu   sync.Mutex
	gone map[int]chan struct{} // each is closed when it has gone, or stays
}

func (s *sweeps) begin(number int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(chan struct{})
	if s.gone == nil {
		s.gone = map[int]chan struct{}{}
	}
	s.gone[number] = gone
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.gone, number)
		close(gone)
	}
}

// mark marks the workspaces that are about to go as leased, and returns a channel that is closed when one of them has
// gone; nil without such a workspace.
func (s *sweeps) mark(p workspace.Pool) (gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, slot := range p {
		if c := s.gone[slot.Number]; c != nil {
			p[i].Session, gone = "swept", c
		}
	}
	return gone
}

// takes returns how many bytes the files of a session took on the disk when its last command looked.
func (r *Runner) takes(ctx context.Context, id string) int64 {
	s, err := r.Store.Session(ctx, store.Viewer{All: true}, id)
	if err != nil {
		return 0
	}
	for n := len(s.Commands); n > 0; n-- {
		result, err := read(r.file(id, n, paths.Result), session.ReadResult)
		if err == nil && result != nil && result.Disk > 0 {
			return result.Disk
		}
	}
	return 0
}
