package workerhands

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/proxy/turn"
	"codex-proxy/remotes/hands"
)

// placeOf is how codex reaches the session.
func placeOf(s *Sessions, one *session) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.place()
}

// note notes that a client knows of a checkout. Until then each turn reports it, as a lost turn reports to nobody.
func note(s *Sessions, q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[idOf(q.Key, q.Name)]; one != nil {
		one.told = max(one.told, min(q.Checkout, one.checkouts))
	}
}

// changesOf are the changes in the workspace of a session that the caller has entered.
func (s *Sessions) changesOf(ctx context.Context, one *session) ([]byte, error) {
	h, err := s.serving(ctx, one)
	if err != nil {
		return nil, err
	}
	patch, _, err := h.Changes(ctx, false)
	return patch, ofClient(err, h.Session())
}

// codeTooLarge is the code of changes that are too large for a patch.
const codeTooLarge turn.HandsCode = "changes_too_large"

// ofClient is an error about the changes of a session of codex-runner as a client of the API can mend it.
func ofClient(err error, session string) error {
	switch {
	case errors.Is(err, hands.ErrTooLarge):
		return &turn.HandsError{Code: codeTooLarge, Words: fmt.Sprintf("%v: have the model delete what is made, or ignore "+
			"it (.gitignore); the operator has them by `codex-runner diff %s` when no command of the session runs",
			hands.ErrTooLarge, session)}
	case errors.Is(err, hands.ErrSilent):
		return &turn.HandsError{Code: turn.HandsUnavailable, Retry: retryFull,
			Words: "the session does not answer in time, as its commands take long; DELETE /v1/hands/NAME ends them"}
	}
	return err
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
		return &turn.HandsError{Code: codeInUse,
			Words: fmt.Sprintf("a turn runs in the session %q: end it first", q.Name)}
	}
	c := one.change
	if c == nil {
		c = s.begin(one, finishing, lifecycle{s}.finish)
	}
	s.mu.Unlock()
	if err := await(ctx, c); err != nil || c.kind == finishing {
		return err
	}
	return s.endNow(ctx, q) // it was opening or closing
}

// atRun is the session that codex reaches at an address, with its token; nil if no session has the address.
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
