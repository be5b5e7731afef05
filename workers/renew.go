package workers

import (
	"fmt"

	"codex-proxy/codex/appserver"
	"codex-proxy/workers/annotations"
)

// Renewals has workers of a pool start again.
type Renewals struct{ roster }

// RenewalsOf are those of the pool.
func RenewalsOf(p *Pool) Renewals { return Renewals{p.roster} }

// DrainForRenewal forbids new turns on one worker during its present run, or allows them again. Turns in flight go on.
func (r Renewals) DrainForRenewal(name string, drain bool) error {
	w, err := r.find(name)
	if err != nil {
		return err
	}
	w.update(func(s *state) {
		if s.drains.renewed = ""; drain {
			s.drains.renewed = s.unit.InvocationID
		}
	})
	return nil
}

// Renew ends the present run of a worker that has no turns, in any process: it takes no new ones, its shim ends codex,
// and systemd starts the unit again. It does not wait for the end. why is for the journal.
func (r Renewals) Renew(name, why string) error {
	w, err := r.find(name)
	if err != nil {
		return err
	}
	var conn *appserver.Conn
	w.update(func(s *state) {
		if s.conn != nil && s.total().Turns == 0 && s.bus == busCurrent && s.unit.Active() && s.unit.InvocationID != "" {
			conn, s.drains.renewed = s.conn, s.unit.InvocationID
		}
	})
	if conn == nil {
		return fmt.Errorf("%w: %s", ErrBusyOrGone, name)
	}
	w.logger.Info("worker starts again, for another codex", "reason", why)
	w.annotator.Connect(w.socket) // a busy machine may have been too slow for it at the handshake
	if !w.annotator.Send(annotations.Renew, why) {
		_ = r.DrainForRenewal(name, false)
		return fmt.Errorf("%w: %s has no shim that reads", ErrBusyOrGone, name)
	}
	conn.Close(errStopping)
	return nil
}

// Want has a stopped standby worker started, as a request would that waits for it.
func (r Renewals) Want(name string) error {
	w, err := r.find(name)
	if err == nil {
		w.Want()
	}
	return err
}
