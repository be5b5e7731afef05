package workers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/units"
)

// bus is what we may believe of the last unit state.
type bus int

const (
	busUnheard bus = iota // systemd has not answered yet
	busCurrent            // the unit state is systemd's current word
	busLost               // the bus is gone: the unit state may be stale
	busNone               // there is no bus here at all
)

// Bounds of the pause between two attempts to connect to an active unit. After
// a loss the pause is long enough for systemd to say first that the worker is
// gone: dialling the socket of a dead worker would start it at once, past
// systemd's own restart delay.
const (
	minDialPause  = 100 * time.Millisecond
	maxDialPause  = 2 * time.Second
	afterLossWait = time.Second
)

// state is all that changes in a Worker. It is touched only under Worker.mu,
// through Worker.update and Worker.view.
type state struct {
	bus  bus
	unit units.State
	// limited: the unit has failed, and that is its start limit.
	limited bool

	conn      *appserver.Conn // non-nil only after a complete handshake
	handshake *probes.Handshake
	offered   []appserver.Model // models of the last handshake, also after its loss
	lost      bool              // a connection of this activation has ended
	dialAfter time.Time
	dialPause time.Duration

	startedAt   time.Time // when systemd was seen to begin the current start
	lastReadyAt time.Time
	latency     time.Duration // start to ready, of the last start seen
	restarts    uint64        // never goes back
	counted     uint32        // NRestarts up to the current invocation
	exit        *probes.Exit  // the last one seen; systemd forgets it at the next start
	failures    uint64        // in a row, until ResetAfter of health
	oomKills    uint64        // runs that a lack of memory has ended; never goes back
	outage      outage        // what the log has told of it
	wedge       wedge
	inflight    int
	elsewhere   Load  // what other processes have in flight
	lingering   int   // turns that no request has any more, and that codex has yet to end
	decoding    int64 // bytes of images that codex may be decoding
	drains      drains

	unreachableSince time.Time // when dialling the active unit began to fail on our side
	reached          bool      // a connection was once complete
	transitions      []probes.Transition
}

// maxTransitions keeps two whole restarts.
const maxTransitions = 12

func (s *state) reason() probes.Reason { return probes.Judge(s.facts()) }

// follow notes a change of the reason and tells whether there was one.
func (s *state) follow(now time.Time) bool {
	reason := s.reason()
	n := len(s.transitions)
	if n > 0 && s.transitions[n-1].Reason == reason {
		return false
	}
	if n == maxTransitions {
		s.transitions = s.transitions[1:]
	}
	s.transitions = append(s.transitions, probes.Transition{Reason: reason, At: now})
	return true
}

// chain is the way from the last time the worker was ready to now, each reason
// with how long it held: "handshake_lost 2ms, backing_off 100ms, …".
func (s *state) chain() string {
	last := len(s.transitions) - 1
	first := last
	for first > 0 && s.transitions[first-1].Reason != probes.Ready {
		first--
	}
	var steps []string
	for i := first; i < last; i++ {
		t := s.transitions[i]
		steps = append(steps, fmt.Sprintf("%s %s", t.Reason, s.transitions[i+1].At.Sub(t.At).Round(time.Millisecond)))
	}
	return strings.Join(steps, ", ")
}

func (s *state) facts() probes.Facts {
	f := probes.Facts{
		NoBus:       s.deaf(),
		ActiveState: s.unit.ActiveState, SubState: s.unit.SubState, Result: s.unit.Result,
		HeldBack: s.unit.HeldBack, JobPending: s.unit.JobPending, StartLimited: s.limited,
		Handshake: s.conn != nil, Lost: s.lost, Draining: s.draining(), Drained: s.drains.operator,
	}
	if s.handshake != nil {
		f.Models = len(s.handshake.Models)
	}
	return f
}

// deaf reports whether the connection alone has to decide. While the bus is
// lost, a unit that systemd last called down is still best described by that.
func (s *state) deaf() bool {
	return s.bus == busNone || s.bus == busLost && (s.conn != nil || s.unit.Unit == "" || s.unit.Active())
}

// mayDial reports whether connecting cannot start a worker that systemd does
// not call active.
func (s *state) mayDial() bool {
	return s.bus == busNone || s.bus == busCurrent && s.unit.Active()
}

// unasked reports whether systemd could not be asked since this process began: nothing
// is known of the unit, which may run all the same.
func (s *state) unasked() bool { return s.bus == busLost && s.unit.Unit == "" && !s.reached }

// heardBus takes over what may be believed of the unit state. A bus that has
// spoken of the unit and is not there any more is lost, not absent: systemd
// still holds the worker's socket.
func (s *state) heardBus(b bus) {
	if b == busNone && s.unit.Unit != "" {
		b = busLost
	}
	s.bus = b
}

// heard takes over what systemd says. That it is current is heardBus's to say: the
// bus may fail again before every unit was heard.
func (s *state) heard(u units.State, now time.Time) {
	limited := u.StartLimited() && !s.brokenOff(u)
	if s.unit.Unit != "" {
		s.count(u, limited)
	}
	if !u.Active() || u.InvocationID != s.unit.InvocationID {
		s.lost, s.dialAfter, s.dialPause = false, time.Time{}, 0
		s.unreachableSince = time.Time{}
	}
	if starting(u) && !starting(s.unit) {
		s.startedAt = now
	}
	if exit := exitOf(u); exit != nil {
		s.ended(exit)
	}
	if u.HeldBack { // the earlier status has the reason why it is down
		u.StatusText = s.unit.StatusText
	}
	s.counted = min(s.counted, u.NRestarts)
	if u.InvocationID != s.unit.InvocationID {
		s.counted = u.NRestarts
	}
	s.unit, s.limited = u, limited
	s.heardBus(s.bus) // which is there, then
	if !u.Failed() {
		s.outage.limitTold = false
	}
}

// ended takes over how a run has ended, which systemd reports more than once.
func (s *state) ended(exit *probes.Exit) {
	known := s.exit != nil && *s.exit == *exit
	if exit.OutOfMemory() && !known && s.unit.Unit != "" {
		s.oomKills++
	}
	s.exit = exit
}

// count adds what happened since the last word. A restart has happened when a
// new invocation began by itself: NRestarts alone also counts the one that the
// start limit refused, and falls back to zero when someone resets the unit.
func (s *state) count(u units.State, limited bool) {
	if u.InvocationID != s.unit.InvocationID && u.InvocationID != "" && u.NRestarts > 0 {
		s.restarts += max(1, uint64(u.NRestarts)-uint64(min(s.counted, u.NRestarts)))
	}
	if (limited || waiting(u)) && !waiting(s.unit) && !s.unit.Failed() {
		s.failures++
	}
}

// brokenOff reports whether a unit that has failed was starting before, and did not
// wait for another start since: somebody stopped it. Of a start that has not come to
// its main process systemd notes nothing else.
func (s *state) brokenOff(u units.State) bool {
	if s.unit.Unit == "" || u.Result == "start-limit-hit" || !u.LeftInactiveAt.Equal(s.unit.LeftInactiveAt) {
		return false
	}
	if waiting(s.unit) {
		return u.InvocationID != s.unit.InvocationID
	}
	return !s.limited
}

// waiting tells the states between an end that nobody asked for and the next start.
func waiting(u units.State) bool {
	switch u.SubState {
	case "auto-restart", "auto-restart-queued", "failed-before-auto-restart", "dead-before-auto-restart":
		return true
	}
	return false
}

// exitOf is how the unit's last run ended; nil while systemd does not tell. A
// start that failed before the main process ran has only a result.
func exitOf(u units.State) *probes.Exit {
	if e, ok := u.LastExit(); ok {
		return &probes.Exit{Result: e.Result, Code: e.Code, Status: e.Status, At: e.At}
	}
	if (waiting(u) || u.Failed()) && u.Result != "success" {
		return &probes.Exit{Result: u.Result, At: u.StateChangedAt}
	}
	return nil
}

func starting(u units.State) bool {
	return u.ActiveState == "activating" && !u.HeldBack &&
		u.SubState != "auto-restart" && u.SubState != "auto-restart-queued"
}

// offers reports whether the model can be run; hidden ones run too, they are only
// not listed.
func offers(models []appserver.Model, id string) bool {
	return slices.ContainsFunc(models, func(m appserver.Model) bool { return m.ID == id })
}

func (s *state) connected(conn *appserver.Conn, h *probes.Handshake, models []appserver.Model) {
	s.conn, s.handshake, s.lost, s.dialPause = conn, h, false, 0
	s.wedge = wedge{}
	s.reached, s.unreachableSince = true, time.Time{}
	s.offered = models
	s.lastReadyAt = h.At
	if !s.startedAt.IsZero() {
		s.latency, s.startedAt = h.At.Sub(s.startedAt), time.Time{}
	}
}

func (s *state) disconnected(now time.Time) {
	s.conn, s.handshake, s.lost = nil, nil, true
	s.dialAfter = now.Add(afterLossWait)
	switch {
	case s.bus == busNone:
		s.dialAfter = now.Add(minDialPause)
	case s.wedged() != "":
		s.dialAfter = now.Add(wedgedWait)
	}
}

// dialFailed plans the next attempt. Where somebody listened, that may have been
// systemd on behalf of a worker that has just died: it gets as long to say so as
// after a loss.
func (s *state) dialFailed(err error, now time.Time) {
	s.unreachable(err, now)
	s.dialPause = min(max(2*s.dialPause, minDialPause), maxDialPause)
	s.dialAfter = now.Add(s.dialPause)
	if s.bus != busNone && !nobodyListens(err) {
		s.dialAfter = now.Add(max(s.dialPause, afterLossWait))
	}
}

func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}
