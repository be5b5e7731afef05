package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/proxy/appserver"
)

const (
	// Wedged is the first word of a line on the connection for annotations. The line
	// reports that codex does not answer on the proxy's connection; its rest is the
	// reason in words. The shim then withholds its watchdog's pings.
	Wedged = "wedged"
	// strikes is how many calls in a row codex may leave unanswered.
	strikes = 2
	// wedgedWait is for the watchdog of the shim. Then the worker is dialled again, in
	// case nothing has restarted it.
	wedgedWait = time.Minute
)

// errWedged ends a connection on which codex answers nothing.
var errWedged = errors.New("codex does not answer on it")

// wedge is the state of the search for a codex that answers all but the proxy.
type wedge struct {
	strikes    int
	since      time.Time // of the first of them
	invocation string    // of the unit when it was found wedged; empty: it was not
	words      string
}

// Suspect reports that codex has left a turn without a message for too long. One of
// the worker's goroutines then asks codex for something that costs nothing: a model
// that is silent delays no answer to that. After two calls in a row without any sign
// of life, from two suspicions, the worker is not ready any more, and its shim is
// asked to have it restarted.
func (l *Lease) Suspect() {
	select {
	case l.suspects <- l.Conn:
	default: // it is being looked at
	}
}

// examine asks codex once.
func (w *Worker) examine(ctx context.Context, conn *appserver.Conn) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, w.settings.HandshakeTimeout)
	defer cancel()
	// It lists the threads that are in memory; an error is an answer, too.
	err := conn.Call(bounded, "thread/loaded/list", struct{}{}, nil)
	silent := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && conn.Err() == nil &&
		conn.LastReceived().Before(began)
	found := false
	w.update(func(s *state) { found = s.examined(silent, began, conn.LastReceived(), w.settings.HandshakeTimeout) })
	if !found {
		return
	}
	s, _ := w.view()
	w.settings.Logger.Error("worker is wedged: its watchdog restarts it",
		"worker", w.name, "unit", w.unit, "reason", s.wedge.words)
	if !w.annotator.tell(Wedged, s.wedge.words) { // no shim: another connection is all that is left to try
		w.update(func(s *state) { s.wedge = wedge{} })
	}
	conn.Close(errWedged)
}

// examined takes over how a call that began then was answered, and when codex last
// said anything.
func (s *state) examined(silent bool, began, heard time.Time, bound time.Duration) (found bool) {
	if heard.After(s.wedge.since) { // the silence before has ended
		s.wedge.strikes, s.wedge.since = 0, began
	}
	if !silent || s.total().Decoding > 0 { // while codex decodes images, of any process, it answers nothing
		s.wedge.strikes = 0
		return false
	}
	if s.wedge.strikes++; s.wedge.strikes < strikes {
		return false
	}
	s.wedge = wedge{
		invocation: s.unit.InvocationID,
		words:      fmt.Sprintf("codex has answered nothing on the proxy's connection, twice for %s", bound),
	}
	return true
}

// wedged is the reason, in words, why the current invocation is wedged; empty: it is not.
func (s *state) wedged() string {
	if s.bus != busNone && s.wedge.invocation != "" && s.wedge.invocation == s.unit.InvocationID {
		return s.wedge.words
	}
	return ""
}
