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

// DrainForRenewal forbids new turns on the codex of one worker during its present run, or allows them again.
// Turns in flight go on.
func (r Renewals) DrainForRenewal(name string, drain bool) error {
	all, err := alike(r.roster, name)
	for _, w := range all {
		w.update(func(s *state) {
			if s.drains.renewed = ""; drain {
				s.drains.renewed = s.unit.InvocationID
			}
		})
	}
	return err
}

// Renew ends the present run of a worker that has no turns, in any process: it takes no new ones, its shim ends codex,
// and systemd starts the unit again. It does not wait for the end. why is for the journal.
func (r Renewals) Renew(name, why string) error {
	all, err := alike(r.roster, name)
	if err != nil {
		return err
	}
	w := all[0]
	var conns []*appserver.Conn
	for _, w := range all {
		idle := false
		w.update(func(s *state) {
			idle = s.total().Turns == 0
			if idle && s.conn != nil && s.bus == busCurrent && s.unit.Active() && s.unit.InvocationID != "" {
				conns, s.drains.renewed = append(conns, s.conn), s.unit.InvocationID
			}
		})
		if !idle || len(conns) == 0 { // the first one sends the order
			return fmt.Errorf("%w: %s", ErrBusyOrGone, name)
		}
	}
	w.logger.Info("worker starts again, for another codex", "reason", why)
	w.annotator.Connect(w.socket) // a busy machine may have been too slow for it at the handshake
	if !w.annotator.Send(annotations.Renew, why) {
		_ = r.DrainForRenewal(name, false)
		return fmt.Errorf("%w: %s has no shim that reads", ErrBusyOrGone, name)
	}
	for _, conn := range conns {
		conn.Close(errStopping)
	}
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
