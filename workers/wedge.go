package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/workers/annotations"
)

const (
	// strikes is how many calls in a row codex may leave unanswered.
	strikes = 2
	// wedgedWait leaves the watchdog of the shim time to have the worker restarted.
	// Then the worker is dialled again, in case it was not.
	wedgedWait = time.Minute
)

// errWedged ends a connection on which codex answers nothing.
var errWedged = errors.New("codex does not answer on it")

// wedge is the search for a codex that answers on every connection but the proxy's.
type wedge struct {
	strikes    int
	since      time.Time // of the first of them
	invocation string    // of the unit when it was found wedged; empty: it was not
	words      string
}

// examine calls codex once.
func (s *workerConn) examine(ctx context.Context) {
	w, bound, began := s.worker, s.worker.settings.HandshakeTimeout, time.Now()
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	// The call lists the threads that are in memory; an error is an answer, too.
	err := s.conn.Call(bounded, "thread/loaded/list", struct{}{}, nil)
	silent := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && s.conn.Err() == nil &&
		s.conn.LastReceived().Before(began)
	found := false
	lookBeside(w)
	w.update(func(st *state) { found = st.examined(silent, began, s.conn.LastReceived(), bound) })
	if !found {
		return
	}
	now, _ := w.view()
	w.logger.Error("worker is wedged: its watchdog restarts it", "reason", now.wedge.words)
	if !w.annotator.Send(annotations.Wedged, now.wedge.words) { // no shim: only another connection is left to try
		w.update(func(s *state) { s.wedge = wedge{} })
	}
	s.conn.Close(errWedged)
}

// examined takes over the result of a call that began at began; received is when the
// last message of codex arrived. It reports whether the worker is now found wedged.
func (s *state) examined(silent bool, began, received time.Time, bound time.Duration) (found bool) {
	if received.After(s.wedge.since) { // the silence before has ended
		s.wedge.strikes, s.wedge.since = 0, began
	}
	if !silent || s.total().Plus(s.beside).Decoding > 0 { // codex answers nothing while it decodes images
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
