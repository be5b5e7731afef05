package repositories

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/store"
)

// unfetched is how long a repository may have no mirror before it is forgotten.
const unfetched = 10 * time.Minute

// Bound removes the mirrors beyond their bounds that are not in use, the least recently used first.
func (r *Repositories) Bound(ctx context.Context) error {
	all, err := r.Store.List(ctx, store.Viewer{All: true})
	var size int64
	for _, m := range all {
		size += m.Bytes
	}
	count := len(all)
	for _, m := range all {
		void := m.Fetched.IsZero() && r.clock.Now().Sub(m.Used) > unfetched
		if count <= r.Config.Count && size <= r.Config.Disk && !void {
			continue
		}
		removed, failed := r.remove(ctx, m.Key)
		if removed {
			count, size = count-1, size-m.Bytes
			r.Evicted(m.Key, m.Bytes)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// remove removes an unused mirror.
func (r *Repositories) remove(ctx context.Context, key string) (removed bool, err error) {
	if !r.mirrors.claim(key) {
		return false, nil
	}
	defer func() {
		r.mirrors.release(key)
		r.Announce()
	}()
	// From now on a request finds no commit in the mirror, and waits for its turn to fetch.
	if err := r.Store.Abandon(ctx, key); err != nil {
		if errors.Is(err, store.ErrState) {
			return false, nil
		}
		return false, err
	}
	if err := r.Systemd.Sweep(ctx, "repository", key); err != nil {
		return false, err
	}
	return true, r.Store.Remove(ctx, key)
}
