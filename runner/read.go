package runner

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// Session returns a session with all its commands.
func (r *Runner) Session(ctx context.Context, v store.Viewer, id string) (wire.Session, error) {
	s, err := r.Store.Session(ctx, v, id)
	if err != nil {
		return s, about(id, err)
	}
	for i, c := range s.Commands {
		if c.State == wire.CommandQueued {
			s.Commands[i].Position = r.position(key{id, c.Number})
		}
	}
	return s, nil
}

// Command returns one command.
func (r *Runner) Command(ctx context.Context, v store.Viewer, id string, number int) (wire.Command, error) {
	s, err := r.Session(ctx, v, id)
	if err != nil {
		return wire.Command{}, err
	}
	i := slices.IndexFunc(s.Commands, func(c wire.Command) bool { return c.Number == number })
	if i < 0 {
		return wire.Command{}, about(id, store.ErrNotFound)
	}
	return s.Commands[i], nil
}

// Prune removes closed sessions, and all their files. Their age is measured at now.
func (r *Runner) Prune(ctx context.Context, v store.Viewer, p wire.Prune, now time.Time) (wire.Pruned, error) {
	closed, err := r.Store.In(ctx, v, wire.SessionClosed)
	if err != nil {
		return wire.Pruned{}, err
	}
	age := time.Duration(p.OlderThan)
	if age == 0 {
		age = r.Retention
	}
	pruned := wire.Pruned{Sessions: []string{}}
	for _, s := range closed {
		if now.Sub(s.Used) >= age {
			pruned.Sessions = append(pruned.Sessions, s.ID)
		}
	}
	for _, id := range pruned.Sessions {
		pruned.Bytes += size(filepath.Join(r.StateDir, paths.SessionDir(id)))
	}
	if p.DryRun || len(pruned.Sessions) == 0 {
		return pruned, nil
	}
	// The files go first: a session without files can be removed again.
	for _, id := range pruned.Sessions {
		r.removeSession(id)
	}
	pruned.Sessions, err = r.Store.Delete(ctx, pruned.Sessions)
	return pruned, err
}

// size is the size of all files below dir, in bytes.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // files go meanwhile
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
