package remotes

import (
	"maps"
	"slices"
	"time"

	"codex-proxy/codex/jsonscan"
)

// The functions of this file change the record of a thread by the requests of its clients and the reports of codex.

// asked is that a client's request for a turn, or a message for the running one, goes to codex.
func (s *state) asked(thread string, i input, now time.Time) {
	r := s.ensure(thread, now)
	if r.Asked { // the user goes on without the cut turn
		*r = record{Since: now, After: r.After}
	}
	if r.Turn == "" {
		r.Kind = ""
	}
	r.Continued = 0
	if i.size() <= maxInput && i.depth() <= maxDepth && len(r.Inputs) < maxInputs {
		r.Inputs = append(r.Inputs, i)
	}
	s.ledger.Last = thread
}

// The bounds of the messages that a record keeps.
const (
	maxInput  = 1 << 20
	maxInputs = 32
	maxDepth  = 128 // of values within each other; codex refuses more
)

func (i input) size() (n int) {
	for name, v := range i.Settings {
		n += len(name) + len(v)
	}
	return n + len(i.Content)
}

// depth is how many arrays and objects lie within each other, at the deepest.
func (i input) depth() (deepest int) {
	for _, v := range append(slices.Collect(maps.Values(i.Settings)), i.Content) {
		deepest = max(deepest, jsonscan.Depth(v))
	}
	return deepest
}

// of reports whether the request that brought the message may still be refused.
func (i input) of(request string) bool { return i.Request == request && !i.Seen }

// asks reports whether the ledger has a message of a request.
func (s *state) asks(request string) bool {
	for _, r := range s.ledger.Threads {
		if slices.ContainsFunc(r.Inputs, func(i input) bool { return i.of(request) }) {
			return true
		}
	}
	return false
}

// refused is that codex has answered a request of asked with an error: it does not have the message.
func (s *state) refused(request string, now time.Time) {
	for id, r := range s.ledger.Threads {
		n := slices.IndexFunc(r.Inputs, func(i input) bool { return i.of(request) })
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
func (s *state) other(thread, kind string, now time.Time) {
	if r := s.ensure(thread, now); r.Turn == "" && len(r.Inputs) == 0 {
		r.Kind, r.Asked = kind, false
	}
}

// interrupt is that a client's interrupt goes to codex. The client may know a turn that codex has not reported to the
// keeper yet, or none.
func (s *state) interrupt(thread, turnID string, now time.Time) {
	r := s.ensure(thread, now)
	switch {
	case turnID == "" && r.Turn == "":
		r.Interrupted = anyTurn
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
func (s *state) started(thread, turnID string, now time.Time) {
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
	if r.Interrupted == anyTurn {
		r.Interrupted = turnID
	}
	s.ledger.Last = thread
}

// seen is that codex has taken up a message of the user.
func (s *state) seen(thread string, m userMessage) {
	r := s.ledger.Threads[thread]
	if r == nil {
		return
	}
	for n := range r.Inputs {
		if i := &r.Inputs[n]; !i.Seen && i.same(m.ClientID, m.Content) {
			i.Seen = true
			return
		}
	}
}

// missed reports whether a turn with a recorded message has ended before the keeper was subscribed to its thread, and
// records that it ran.
func (s *state) missed(thread string, t turn, now time.Time) bool {
	r := s.ledger.Threads[thread]
	if r == nil || r.Asked || t.ID <= r.After || t.ID == s.thread(thread).ended {
		return false
	}
	ours := false
	for _, m := range t.messages() {
		ours = ours || slices.ContainsFunc(r.Inputs, func(i input) bool { return i.same(m.ClientID, m.Content) })
		s.seen(thread, m)
	}
	if ours {
		s.started(thread, t.ID, now)
	}
	return ours
}

// ended is that codex has ended a turn. Messages that it took up are in its files now; others start the next turn.
func (s *state) ended(thread, turnID string, now time.Time) {
	t := s.thread(thread)
	t.ended = max(t.ended, turnID)
	r := s.ledger.Threads[thread]
	if r == nil || turnID < r.Turn || r.Asked {
		return
	}
	s.since = now
	r.Inputs = slices.DeleteFunc(r.Inputs, func(i input) bool { return i.Seen })
	if len(r.Inputs) == 0 {
		s.drop(thread, now)
		return
	}
	*r = record{Since: now, After: turnID, Inputs: r.Inputs}
}

// settle is how long a record may say that a thread runs while codex says that it does not: a request may be under way,
// or codex has refused it.
const settle = 5 * time.Second

// stale are the threads with records that nothing will end: codex has refused the request, or did not report the end. A
// record that the keeper itself is starting a turn of is none, however old it is.
func (s *state) stale(now time.Time) (threads []string) {
	for id, r := range s.ledger.Threads {
		t := s.threads[id]
		idle := t == nil || t.held == 0 && !t.status.active()
		if !r.Asked && idle && now.Sub(r.last()) > settle {
			threads = append(threads, id)
		}
	}
	return threads
}

// last is when the record changed last.
func (r *record) last() time.Time {
	at := r.Since
	for _, i := range r.Inputs {
		if i.At.After(at) {
			at = i.At
		}
	}
	return at
}
