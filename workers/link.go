package workers

import (
	"errors"
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

// link is the part of a worker's state that its socket determines.
type link struct {
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

func (l *link) connected(conn *appserver.Conn, h *probes.Handshake, models []appserver.Model) {
	l.conn, l.handshake, l.lost, l.dialPause = conn, h, false, 0
	l.reached, l.unreachableSince = true, time.Time{}
	l.offered = models
	l.lastReadyAt = h.At
	if !l.startedAt.IsZero() {
		l.latency, l.startedAt = h.At.Sub(l.startedAt), time.Time{}
	}
}

func (l *link) dialFailed(err error, now time.Time) {
	l.unreachable(err, now)
	l.dialPause = min(max(2*l.dialPause, minDialPause), maxDialPause)
	l.dialAfter = now.Add(l.dialPause)
}

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}
