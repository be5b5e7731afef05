package runner

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// closer closes sessions.
type closer struct{ *Sessions }

// close closes a session if it is idle and its last unit has ended, and reports whether it did.
func (s closer) close(ctx context.Context, id string) bool {
	bytes := s.takes(ctx, id)
	err := store.ErrState // a command has its workspace
	s.queue.IfIdle(id, func() { err = s.store.Sessions.Close(ctx, id, bytes, time.Now()) })
	if err != nil {
		if !errors.Is(err, store.ErrState) && ctx.Err() == nil {
			s.logger.Error("cannot close a session", "session", id, "error", err)
		}
		return false
	}
	s.files.RemoveSecrets(id)
	s.logger.Info("a session is closed", "session", id)
	s.queue.Announce()
	s.trim()
	return true
}

// closeIdlest reports whether it found idle sessions, and has closed the one that was used least recently, of those
// that did not begin a command meanwhile.
func (s closer) closeIdlest(ctx context.Context) (found, closed bool) {
	idle, err := s.store.Sessions.In(ctx, store.Viewer{All: true}, wire.SessionIdle)
	for _, one := range idle {
		if s.close(ctx, one.ID) {
			return true, true
		}
	}
	return err == nil && len(idle) > 0, false
}

// takes returns how many bytes the files of a session took on the disk when its last command looked.
func (s closer) takes(ctx context.Context, id string) int64 {
	found, err := s.store.Sessions.Find(ctx, store.Viewer{All: true}, id)
	if err != nil {
		return 0
	}
	for n := len(found.Commands); n > 0; n-- {
		result, err := s.files.Result(id, n)
		if err == nil && result != nil && result.Disk > 0 {
			return result.Disk
		}
	}
	return 0
}
