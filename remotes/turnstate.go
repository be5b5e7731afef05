package remotes

import (
	"encoding/json"
	"slices"
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// The functions of this file change the record of a thread by the requests of its clients and the reports of codex.

// asked is that a client's request for a turn, or a message for the running one, goes to codex.
func (s *records) asked(thread string, i turnjournal.Input, now time.Time) {
	r := s.ensure(thread, now)
	if r.Asked { // the user goes on without the cut turn
		*r = turnjournal.Record{Since: now, After: r.After, Config: r.Config}
	}
	if r.Turn == "" {
		r.Kind = ""
	}
	r.Continued = 0
	if i.Fits() && len(r.Inputs) < turnjournal.MaxInputs {
		r.Inputs = append(r.Inputs, i)
	}
	s.journal.Last = thread
}

// loaded is that a client has loaded a thread, with settings of its own, before its turn.
func (s *records) loaded(thread string, config map[string]json.RawMessage) {
	if r := s.journal.Threads[thread]; r != nil && r.Config == nil {
		r.Config = config
	}
}

// asks reports whether the turn journal has a message of a request.
func (s *records) asks(request string) bool {
	for _, r := range s.journal.Threads {
		if slices.ContainsFunc(r.Inputs, func(i turnjournal.Input) bool { return i.Of(request) }) {
			return true
		}
	}
	return false
}

// refused is that codex has answered a request of asked with an error: it does not have the message.
func (s *records) refused(request string, now time.Time) {
	for id, r := range s.journal.Threads {
		n := slices.IndexFunc(r.Inputs, func(i turnjournal.Input) bool { return i.Of(request) })
		if n < 0 {
			continue
		}
		r.Inputs = slices.Delete(r.Inputs, n, n+1)
		if r.Turn == "" && len(r.Inputs) == 0 && r.Interrupted == "" && !r.Asked {
			s.drop(id, now)
		}
		return
	}
}

// other is that a client starts something in a thread that is no turn of the model.
func (s *records) other(thread, kind string, now time.Time) {
	if r := s.ensure(thread, now); r.Turn == "" && len(r.Inputs) == 0 {
		r.Kind, r.Asked = kind, false
	}
}

// interrupt is that a client's interrupt goes to codex. The client may know a turn that codex has not reported to the
// manager yet, or none.
func (s *records) interrupt(thread, turnID string, now time.Time) {
	r := s.ensure(thread, now)
	switch {
	case turnID == "" && r.Turn == "":
		r.Interrupted = turnjournal.AnyTurn
	case turnID == "":
		r.Interrupted = r.Turn
	case turnID >= r.Turn: // ids of codex grow with time
		r.Turn, r.Interrupted = turnID, turnID
	default:
		return // codex refuses it: the turn has ended
	}
	r.Inputs, r.Asked, r.Quota = nil, false, false // the client has them back
}

// started is that codex runs a turn. The answer to a request may arrive after the report of its end.
func (s *records) started(thread, turnID string, now time.Time) {
	if turnID == s.thread(thread).ended {
		return
	}
	r := s.ensure(thread, now)
	if turnID <= r.Turn || r.Asked { // another turn of a user does not take back an offer to continue
		return
	}
	if r.Turn != "" { // Kind is of an earlier turn
		r.Kind = ""
	}
	r.Turn, r.Since, r.Quota = turnID, now, false
	if r.Interrupted == turnjournal.AnyTurn {
		r.Interrupted = turnID
	}
	s.journal.Last = thread
}

// seen is that codex has taken up a message of the user.
func (s *records) seen(thread string, msg codexthread.Message) {
	r := s.journal.Threads[thread]
	if r == nil {
		return
	}
	for n := range r.Inputs {
		if i := &r.Inputs[n]; !i.Seen && i.Same(msg.ClientID, msg.Content) {
			i.Seen = true
			return
		}
	}
}

// missed reports whether a turn with a recorded message has ended before the manager was subscribed to its thread, and
// records that it ran.
func (s *records) missed(thread string, t codexthread.Turn, now time.Time) bool {
	r := s.journal.Threads[thread]
	if r == nil || r.Asked || t.ID <= r.After || t.ID == s.thread(thread).ended {
		return false
	}
	ours := false
	for _, msg := range t.Messages() {
		ours = ours || slices.ContainsFunc(r.Inputs, func(i turnjournal.Input) bool {
			return i.Same(msg.ClientID, msg.Content)
		})
		s.seen(thread, msg)
	}
	if ours {
		s.started(thread, t.ID, now)
	}
	return ours
}

// ended is that codex has ended a turn. Messages that it took up are in its files now; others start the next turn.
func (s *records) ended(thread, turnID string, now time.Time) {
	t := s.thread(thread)
	t.ended = max(t.ended, turnID)
	r := s.journal.Threads[thread]
	if r == nil || turnID < r.Turn || r.Asked {
		return
	}
	s.since = now
	r.Inputs = slices.DeleteFunc(r.Inputs, func(i turnjournal.Input) bool { return i.Seen })
	if len(r.Inputs) == 0 {
		s.drop(thread, now)
		return
	}
	*r = turnjournal.Record{Since: now, After: turnID, Inputs: r.Inputs, Config: r.Config}
}

// settle is how long a thread may run by its record while codex reports that it does not run: a request may be under
// way, or codex has refused it.
const settle = 5 * time.Second

// stale are the threads with records that nothing will end: codex has refused the request, or did not report the end. A
// record is never stale while the manager itself starts its turn.
func (s *records) stale(now time.Time) (threads []string) {
	for id, r := range s.journal.Threads {
		t := s.threads[id]
		idle := t == nil || t.held == 0 && !t.status.Active()
		if !r.Asked && idle && now.Sub(r.Changed()) > settle {
			threads = append(threads, id)
		}
	}
	return threads
}
