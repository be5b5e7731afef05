package workers

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// unreachable records since when an active unit's socket has refused connections.
// Only a failure before the worker could accept counts. A worker that accepts and
// does not answer hangs, and so does one with a full backlog (EAGAIN, unix(7));
// its own watchdog handles both.
func (l *link) unreachable(err error, now time.Time) {
	switch {
	case !refused(err):
		l.unreachableSince = time.Time{}
	case l.unreachableSince.IsZero():
		l.unreachableSince = now
	}
}

func refused(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.Is(err, syscall.EAGAIN)
}

// reachable is an error when this process, and not the worker, has kept them
// apart for longer than HandshakeTimeout.
func (w *Worker) reachable() error {
	s, _ := w.view()
	if err := s.ownFault(w.settings.HandshakeTimeout, time.Now()); err != nil {
		return fmt.Errorf("worker %s cannot be reached: %w", w.name, err)
	}
	return nil
}

// ownFault is an error when systemd has reported the unit active for longer than
// bound and this process cannot connect to it, although it once could: its
// descriptors, its groups or its view of the file system have gone wrong, and a
// restart mends that. A new process that cannot connect either was never
// connected and reports no fault, so one fault causes one restart and no more.
func (s *state) ownFault(bound time.Duration, now time.Time) error {
	if !s.reached || s.unreachableSince.IsZero() || s.bus != busCurrent || !s.unit.Active() {
		return nil
	}
	if since := now.Sub(s.unreachableSince); since > bound {
		return fmt.Errorf("its unit is active and cannot be connected to for %s", since.Round(time.Millisecond))
	}
	return nil
}
