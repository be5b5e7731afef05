package exec

import (
	"context"
	"time"

	"codex-proxy/runner/session"
)

// hold keeps a command that has failed, with its unit, workspace and environment, so that a user can look at them in a
// shell: until the time of the specification is over, the daemon releases it, or ctx ends. The result is written
// already.
func (s *Shim) hold(ctx context.Context, r *run, result *session.Result) {
	if r.spec.Hold == 0 || result.Cause == session.Cancelled || succeeded(result) || !result.HasWorkspace() {
		return
	}
	r.enter(Held)
	s.Notifier.Status("Held: " + summary(result))
	timer := time.NewTimer(r.spec.Hold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.released:
	case <-ctx.Done():
	}
}

func succeeded(r *session.Result) bool {
	return r.Failure == nil && r.Cause == "" && r.Exited && r.Status == 0 && r.Signal == 0
}

// release ends the hold, also one that is about to begin. For a command that is not held it does nothing.
func (r *run) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over && len(r.released) == 0 {
		r.released <- struct{}{}
	}
}
