package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/annotations"
)

const (
	// maxKickPause bounds the pause between two attempts to start a unit; see minKickPause.
	maxKickPause = time.Minute
	// wantedFor is how long a request keeps the worker started that it has waited for.
	wantedFor = time.Minute
	// restAgain is the pause after a worker that Rest did not end. The shim of an older
	// version ends none.
	restAgain = time.Minute
)

// Variables, so that tests can lengthen them.
var (
	// restBound is how long systemd may take to report that the unit is ending after Rest:
	// the shim notifies it at once.
	restBound = 5 * time.Second
	// minKickPause is the first pause between two attempts to start a unit. systemd reports
	// a start that it has begun within much less.
	minKickPause = 2 * time.Second
	// annotateBound bounds each connection to a shim, and each annotation.
	annotateBound = time.Second
)

// Role is the decision of the plan of the accounts for a worker.
type Role int

// The roles of a worker.
const (
	// Fixed: systemd and operators alone start and stop the unit.
	Fixed Role = iota
	// Spare: the unit may be stopped, and is a standby then.
	Spare
	// Needed: the unit runs. If it is stopped, a connection to its socket starts it.
	Needed
)

// standby is the part of a worker's state that belongs to the plan.
type standby struct {
	role     Role
	wantedAt time.Time // when a request last waited for this worker to be started; zero once it is

	resting string    // InvocationID of the run that its shim was asked to end
	restBy  time.Time // the end of restBound
	// awakeUntil is until when Rest does nothing, after a run that it did not end.
	awakeUntil time.Time

	kickAfter time.Time     // the next attempt to start the unit
	kickPause time.Duration // grows while attempts are in vain
	deaf      bool          // the last attempt found no listening socket
}

// standsBy reports whether the service may start the stopped unit.
func (s *state) standsBy() bool {
	return s.standby.role != Fixed && !s.standby.deaf && s.bus == busCurrent && s.unit.LoadState == "loaded"
}

// mayKick reports whether a connection is to start the unit. A unit that is bound to a
// dependency which cannot start would end, and the connection that waits in its socket would
// start it again at once, until the socket's own limit (TriggerLimitBurst=, systemd.socket(5)).
func (s *state) mayKick() bool {
	if s.unmet.Bound && s.unmet.Reason != "" {
		return false
	}
	wanted := s.standby.role == Needed || s.standby.role == Spare && time.Since(s.standby.wantedAt) < wantedFor
	return wanted && s.bus == busCurrent && s.unit.LoadState == "loaded" && s.unit.ActiveState == "inactive" &&
		s.unit.SubState == "dead" && !s.unit.JobPending && !s.drains.operator
}

// rests reports whether that run is being ended.
func (s *standby) rests(invocation string) bool { return s.resting != "" && s.resting == invocation }

// kicked plans the next attempt to start the unit, after one with that result.
func (s *standby) kicked(err error, now time.Time) {
	s.deaf = err != nil && nobodyListens(err)
	s.kickPause = min(max(2*s.kickPause, minKickPause), maxKickPause)
	s.kickAfter = now.Add(s.kickPause)
}

// started ends the attempts: systemd has begun a start.
func (s *standby) started() { s.kickAfter, s.kickPause, s.deaf = time.Time{}, 0, false }

// kick connects to the socket of a stopped unit, which makes systemd start it, and leaves a
// connection without annotations to the shim. It does not wait for the start.
func (c *connector) kick(ctx context.Context) {
	w := c.worker
	err := c.answering(ctx, func() error { return annotations.Knock(w.socket, annotateBound) })
	w.update(func(s *state) {
		switch {
		case err == nil:
			w.logger.Debug("standby worker is started by a connection")
		case s.standby.kickPause == 0:
			w.logger.Warn("cannot start a standby worker", "error", err)
		}
		s.standby.kicked(err, time.Now())
	})
}

// SetRole sets the decision of the plan for the worker. The error wraps ErrUnknown.
func (r roster) SetRole(name string, role Role) error {
	w, err := r.find(name)
	if err != nil {
		return err
	}
	if s, _ := w.view(); s.standby.role != role {
		w.update(func(s *state) { s.standby.role = role })
	}
	return nil
}

// ErrBusyOrGone is why a worker was not ended by Rest.
var ErrBusyOrGone = errors.New("the worker has turns in flight, or is not ready")

// Rest ends a ready worker that has no turns, in any process: it takes no new ones, its shim
// ends codex, and its unit stays stopped. It does not wait for the end. A request that arrives
// meanwhile goes elsewhere, or starts the worker again. why is for the journal.
func (r roster) Rest(name, why string) error {
	w, err := r.find(name)
	if err != nil {
		return err
	}
	now, rests := time.Now(), false
	var conn *appserver.Conn
	w.update(func(s *state) {
		if rests = s.mayRest(now); rests {
			conn = s.conn
			s.standby.resting, s.standby.restBy = s.unit.InvocationID, now.Add(restBound)
		}
	})
	if !rests {
		return fmt.Errorf("%w: %s", ErrBusyOrGone, name)
	}
	w.logger.Info("worker goes on standby", "reason", why)
	w.annotator.Connect(w.socket)                 // a busy machine may have been too slow for it at the handshake
	if !w.annotator.Send(annotations.Rest, why) { // only a shim can end it
		w.cannotRest()
		return fmt.Errorf("%w: %s has no shim that reads", ErrBusyOrGone, name)
	}
	conn.Close(errStopping)
	return nil
}

func (s *state) mayRest(now time.Time) bool {
	return s.reason() == probes.Ready && s.total().Turns == 0 && s.bus == busCurrent &&
		s.unit.InvocationID != "" && now.After(s.standby.awakeUntil)
}

// cannotRest lets a worker take turns again that Rest has not ended.
func (w *Worker) cannotRest() {
	w.logger.Warn("worker does not go on standby", "wait", restAgain)
	w.update(func(s *state) { s.standby.resting, s.standby.awakeUntil = "", time.Now().Add(restAgain) })
}

// Want has the worker started for a request. It wakes no queue, because the caller may
// hold the queue's lock.
func (w *Worker) Want() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.standby.wantedAt = time.Now()
	close(w.changed)
	w.changed = make(chan struct{})
}

// planned is the worker in the form for the plan of the accounts. The plan adds its own facts.
func (w *Worker) planned(now time.Time) accounts.Unit {
	s, _ := w.view()
	u := accounts.Unit{
		Name: w.name, Phase: s.phase(), Turns: s.total().Turns, UsedAt: s.usedAt, ReadyAt: s.lastReadyAt,
	}
	if now.Sub(s.standby.wantedAt) < wantedFor {
		u.WantedAt = s.standby.wantedAt
	}
	return u
}

// Units are the workers as the plan of the accounts sees them.
func (r roster) Units(now time.Time) []accounts.Unit {
	units := make([]accounts.Unit, 0, len(r))
	for _, w := range r {
		units = append(units, w.planned(now))
	}
	return units
}

// Phase is the worker for the plan of the accounts.
func (w *Worker) Phase() accounts.Phase {
	s, _ := w.view()
	return s.phase()
}

// phase translates the reason of the worker for the plan.
func (s *state) phase() accounts.Phase {
	if s.drains.operator || s.bus != busCurrent {
		return accounts.Held
	}
	switch s.reason() {
	case probes.Ready:
		return accounts.Warm
	case probes.Starting, probes.HandshakePending, probes.HandshakeLost:
		return accounts.Coming
	case probes.Standby:
		return accounts.Cold
	case probes.Draining:
		return accounts.Going
	case probes.Stopped:
		deaf := s.standby.deaf && time.Until(s.standby.kickAfter) > 0
		if s.unit.LoadState == "loaded" && !deaf { // no plan was carried out yet, or its socket may listen again
			return accounts.Cold
		}
		return accounts.Held
	default:
		return accounts.Failing
	}
}
