package workers

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
)

// Bounds of the pause between two attempts to connect to an active unit. After a
// loss the pause is long enough for systemd to report first that the worker has
// ended: a connection to the socket of a dead worker would start it at once,
// past systemd's own restart delay.
const (
	minDialPause  = 100 * time.Millisecond
	maxDialPause  = 2 * time.Second
	afterLossWait = time.Second
)

// codexConn is the part of a worker's state that its socket determines.
type connState struct {
	conn      *appserver.Conn // non-nil only after a complete handshake
	handshake *probes.Handshake
	offered   []appserver.Model // models of the last handshake, also after its loss
	lost      bool              // a connection of this activation has ended
	reached   bool              // a handshake was once complete
	dialAfter time.Time
	dialPause time.Duration

	unreachableSince time.Time // when dialling the active unit began to fail on our side

	startedAt   time.Time // when systemd was seen to begin the current start
	lastReadyAt time.Time
	latency     time.Duration // from start to ready, of the last start seen
}

func (l *connState) connected(conn *appserver.Conn, h *probes.Handshake, models []appserver.Model) {
	l.conn, l.handshake, l.lost, l.dialPause = conn, h, false, 0
	l.reached, l.unreachableSince = true, time.Time{}
	l.offered = models
	l.lastReadyAt = h.At
	if !l.startedAt.IsZero() {
		l.latency, l.startedAt = h.At.Sub(l.startedAt), time.Time{}
	}
}

func (l *connState) dialFailed(err error, now time.Time) {
	l.unreachable(err, now)
	l.dialPause = min(max(2*l.dialPause, minDialPause), maxDialPause)
	l.dialAfter = now.Add(l.dialPause)
}

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

// unreachable records since when an active unit's socket has refused connections.
// Only a failure before the worker could accept counts. A worker that accepts and
// does not answer hangs, and so does one with a full backlog (EAGAIN, unix(7));
// its own watchdog handles both.
func (l *connState) unreachable(err error, now time.Time) {
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
