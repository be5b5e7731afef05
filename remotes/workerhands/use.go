package workerhands

import (
	"context"
	"fmt"

	"codex-proxy/proxy/turn"
	"codex-proxy/remotes/hands"
)

// placeOf is how codex reaches the session. It reports a new checkout once.
func (s *Sessions) placeOf(one *session) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := one.place()
	one.fresh = false
	return p
}

// changesOf are the changes in the workspace of a session that the caller has entered.
func (s *Sessions) changesOf(ctx context.Context, one *session) ([]byte, error) {
	h, err := s.serving(ctx, one)
	if err != nil {
		return nil, err
	}
	patch, _, err := h.Changes(ctx, false)
	return patch, err
}

// codeInUse is the code of an order to end a session of a turn that runs.
const codeInUse turn.HandsCode = "session_in_use"

// endNow ends a session that no turn has.
func (s *Sessions) endNow(ctx context.Context, q question) error {
	one, err := s.hold(ctx, q, true)
	if err != nil {
		return err
	}
	s.mu.Lock()
	one.users--
	if one.users > 0 {
		s.mu.Unlock()
		return &turn.HandsError{Code: codeInUse, Words: fmt.Sprintf("a turn runs in the session %q: end it first", q.Name)}
	}
	c := one.change
	if c == nil {
		c = s.begin(one, finishing, s.finish)
	}
	s.mu.Unlock()
	if err := await(ctx, c); err != nil || c.kind == finishing {
		return err
	}
	return s.endNow(ctx, q) // it was opening or closing
}

// atRun is the session that codex knows by an address, with the token for it; nil: there is none.
func (s *Sessions) atRun(run string) (one *session, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.Run == run && run != "" {
			return one, one.Token
		}
	}
	return nil, ""
}

// serving are the hands of a session that serves, or that begins to: after a crash of this process a turn still has it.
func (s *Sessions) serving(ctx context.Context, one *session) (*hands.Hands, error) {
	if err := s.serve(ctx, one); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.hands == nil {
		return nil, unavailable("the session has just ended its exec-server")
	}
	return one.hands, nil
}
