package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// Prune removes closed sessions, and all their files. Their age is measured at now.
func (s *Sessions) Prune(ctx context.Context, v store.Viewer, p wire.Prune, now time.Time) (wire.Pruned, error) {
	closed, err := s.store.Sessions.In(ctx, v, wire.SessionClosed)
	if err != nil {
		return wire.Pruned{}, err
	}
	age := time.Duration(p.OlderThan)
	if age == 0 {
		age = s.retention
	}
	pruned := wire.Pruned{Sessions: []string{}}
	for _, c := range closed {
		if now.Sub(c.Used) >= age {
			pruned.Sessions = append(pruned.Sessions, c.ID)
		}
	}
	for _, id := range pruned.Sessions {
		pruned.Bytes += s.files.Size(id)
	}
	if p.DryRun || len(pruned.Sessions) == 0 {
		return pruned, nil
	}
	// The files go first: a session without files can be removed again.
	for _, id := range pruned.Sessions {
		s.files.Remove(id)
	}
	pruned.Sessions, err = s.store.Sessions.Delete(ctx, pruned.Sessions)
	return pruned, err
}

// removeForgotten removes the secrets of a daemon that died while it made or closed a session.
func (s *Sessions) removeForgotten(ctx context.Context) error {
	ids, err := s.files.InMemory()
	if err != nil {
		return err
	}
	for _, id := range ids {
		found, err := s.store.Sessions.Find(ctx, store.Viewer{All: true}, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			s.files.Remove(id)
		case err != nil:
			return fmt.Errorf("cannot read the store: %w", err)
		case found.State == wire.SessionClosed:
			s.files.RemoveSecrets(id)
		}
	}
	return nil
}
