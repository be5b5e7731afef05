package remotes

import (
	"time"
)

// state is everything of a Keeper that changes, under its mutex. The ledger is written after each change of it.
type state struct {
	ledger  ledger
	link    *link  // nil: not open, or not yet
	detail  string // for people, once open
	lastErr error  // why it is not open
	changed chan struct{}

	began   time.Time
	threads map[string]*live
	clients map[int]Client
	nextID  int
	since   time.Time // of the last change of clients or turns: idle since then, if idle
	left    time.Time // when the last owner detached, or the keeper began
	rested  bool
}

// live is the known state of a thread of this codex process.
type live struct {
	known      bool // codex has described it
	hidden     bool
	writing    bool // codex is asked to write its file
	status     threadStatus
	changed    time.Time // when it began or ended to run
	waiting    time.Time // since when it waits for a user; zero: it does not
	announced  bool      // that it waits with nobody attached
	subscribed bool
	wanted     bool // a subscription is under way
	held       int  // requests of the keeper that need the subscription
	ended      string
	calls      map[string]toolCall
}

func newState(l ledger, now time.Time) state {
	return state{
		ledger: l, changed: make(chan struct{}),
		began: now, threads: map[string]*live{}, clients: map[int]Client{}, since: now, left: now,
	}
}

// signal wakes those that wait for a change of open, for a new thread, or for a subscription.
func (s *state) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *state) disconnected(err error) {
	s.link, s.lastErr = nil, err
	for _, t := range s.threads {
		t.subscribed, t.wanted, t.calls, t.status = false, false, nil, threadStatus{}
	}
	s.signal()
}

func (s *state) thread(id string) *live {
	t := s.threads[id]
	if t == nil {
		t = &live{changed: time.Now()}
		s.threads[id] = t
	}
	return t
}

// forget drops the state of a thread that codex has unloaded. Requests of the keeper that hold it load it again.
func (s *state) forget(id string) {
	held := s.thread(id).held
	delete(s.threads, id)
	if held > 0 {
		s.thread(id).held = held
	}
}

// describe records the description by codex. It wakes Passing, unless codex has to write the thread's file first: an
// item for a thread with a running turn makes codex ask the model once more, so a thread that has a record gets none.
func (s *state) describe(t threadInfo) (write bool) {
	l := s.thread(t.ID)
	l.known, l.hidden = true, t.hidden()
	l.writing = !t.hidden() && t.Forked == "" && t.Preview == "" && s.ledger.Threads[t.ID] == nil
	s.signal()
	return l.writing
}

// written is that codex has the file of a thread, or will not write it.
func (s *state) written(thread string) {
	if t := s.threads[thread]; t != nil {
		t.writing = false
		s.signal()
	}
}

// ensure returns the record of a thread, a new one if there is none.
func (s *state) ensure(thread string, now time.Time) *record {
	r := s.ledger.Threads[thread]
	if r == nil {
		r = &record{Since: now, After: s.thread(thread).ended}
		s.ledger.Threads[thread] = r
	}
	s.since = now
	return r
}

func (s *state) drop(thread string, now time.Time) {
	delete(s.ledger.Threads, thread)
	s.since = now
	s.signal()
}

// alone reports whether a thread has a turn, or will have one, that the keeper is not subscribed to.
func (s *state) alone() bool {
	for id, r := range s.ledger.Threads {
		t := s.threads[id]
		waits, ends := r.Asked || r.Quota, r.Interrupted != "" && len(r.Inputs) == 0
		if !waits && !ends && (t == nil || !t.hidden && !t.subscribed) {
			return true
		}
	}
	for _, t := range s.threads { // an operation without a record, such as a review
		if t.wanted && !t.hidden && !t.subscribed {
			return true
		}
	}
	return false
}

// owners counts the clients that may answer an approval.
func (s *state) owners() (n int) {
	for _, c := range s.clients {
		if !c.Viewer {
			n++
		}
	}
	return n
}

// busy means that a turn runs or waits for a user. A cut turn is not busy after its user was asked; one that waits
// for quota is.
func (s *state) busy() bool {
	for _, r := range s.ledger.Threads {
		if !r.Asked || r.Quota {
			return true
		}
	}
	for _, t := range s.threads {
		if t.status.active() {
			return true
		}
	}
	return false
}
