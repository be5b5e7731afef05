// Package workspaces leases workspaces to sessions, and keeps them within their bounds.
package workspaces

import (
	"context"
	"errors"
	"strconv"
	"time"

	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
	"codex-proxy/runner/workspace"
)

// Settings of Workspaces.
type Settings struct {
	Store   store.Workspaces
	Systemd *systemd.Client
	Bounds  workspace.Bounds // the bytes are of the workspaces that no session leases
	// Changed returns a channel that is closed at the next change of a command.
	Changed func() <-chan struct{}
	// CloseIdlest reports whether there are idle sessions, and has closed the one that was used least recently.
	CloseIdlest func(context.Context) (found, closed bool)
	Evicted     func(name string, bytes int64)
}

// Workspaces leases workspaces. Its methods are safe for concurrent use.
type Workspaces struct {
	Settings

	removals removals
}

// New returns Workspaces.
func New(s Settings) *Workspaces { return &Workspaces{Settings: s} }

// Lease returns the slot of the session of a command. If there is no other, it takes the slot of the session that has
// been idle for the longest time.
func (w *Workspaces) Lease(ctx context.Context, c store.Live) (int, error) {
	for {
		var removed <-chan struct{}
		slot, err := w.Store.Lease(ctx, c.Session, c.Repository, time.Now(), func(p workspace.Pool) (int, error) {
			removed = w.removals.mark(p)
			return p.Lease(c.Repository, workspace.Bounds{Slots: w.Bounds.Slots})
		})
		if !errors.Is(err, workspace.ErrPoolFull) {
			return slot, err
		}
		if removed != nil {
			select {
			case <-removed:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			continue
		}
		changed := w.Changed()
		found, closed := w.CloseIdlest(ctx)
		if !found {
			return 0, err
		}
		if closed {
			continue
		}
		select { // the idle ones begin a command, or the store has no room
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Bound removes the workspaces beyond their bounds that no session leases, the least recently used first.
func (w *Workspaces) Bound(ctx context.Context) error {
	all, err := w.Store.Pool(ctx)
	for _, number := range all.Evict(w.Bounds) {
		err = errors.Join(err, w.remove(ctx, number))
	}
	return err
}

// remove removes a workspace, unless a session leases it meanwhile.
func (w *Workspaces) remove(ctx context.Context, number int) error {
	defer w.removals.begin(number)()
	all, err := w.Store.Pool(ctx) // no lease of it can begin after this
	if err != nil {
		return err
	}
	for _, slot := range all {
		if slot.Number != number || slot.Session != "" {
			continue
		}
		if err := w.Systemd.Sweep(ctx, "slot", strconv.Itoa(number)); err != nil {
			return err
		}
		w.Evicted(strconv.Itoa(number), slot.Bytes)
		return w.Store.Remove(ctx, number)
	}
	return nil
}
