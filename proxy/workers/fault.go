package workers

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// unreachable notes since when an active unit's socket has turned us away. Only
// what fails before anybody could have accepted counts: a worker that accepts
// and is silent hangs, and so does one whose backlog is full (EAGAIN, unix(7));
// its own watchdog sees to it.
func (s *state) unreachable(err error, now time.Time) {
	switch {
	case !turnedAway(err):
		s.unreachableSince = time.Time{}
	case s.unreachableSince.IsZero():
		s.unreachableSince = now
	}
}

// Reachable is an error when the proxy itself, and not the worker, keeps them
// apart for longer than HandshakeTimeout.
func (w *Worker) Reachable() error {
	s, _ := w.view()
	if err := s.ownFault(w.settings.HandshakeTimeout, time.Now()); err != nil {
		return fmt.Errorf("worker %s cannot be reached: %w", w.name, err)
	}
	return nil
}

func turnedAway(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.Is(err, syscall.EAGAIN)
}

// ownFault is an error when systemd has called the unit active for longer than
// bound and we cannot connect to it, although we once could: our descriptors,
// our groups or our view of the file system have gone wrong, which a restart
// mends. Where it does not mend them the new process has never been connected
// and stays, so that one fault is worth one restart and no more.
func (s *state) ownFault(bound time.Duration, now time.Time) error {
	if !s.reached || s.unreachableSince.IsZero() || s.bus != busCurrent || !s.unit.Active() {
		return nil
	}
	if since := now.Sub(s.unreachableSince); since > bound {
		return fmt.Errorf("its unit is active and cannot be connected to for %s", since.Round(time.Millisecond))
	}
	return nil
}
