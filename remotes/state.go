package remotes

import (
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// state is everything of a Manager that changes, under its mutex. The turn journal is written after each change of it.
type state struct {
	records
	link    *codexConn // nil: not open, or not yet
	detail  string     // for people, once open
	version string     // of the codex that runs, or ran last
	unknown []string   // requests of clients that no rule is on
	ends    Ends
	lastErr error // why it is not open

	began   time.Time
	clients map[int]Client
	nextID  int
	left    time.Time // when the last owner detached, or the manager began
	rested  bool
	renewed bool // it is about to end, by Renew
}

// records are the records of threads: in the turn journal, and of this codex process.
type records struct {
	journal turnjournal.Journal
	threads map[string]*live
	since   time.Time // of the last change of clients or turns: idle since then, if idle
	changed chan struct{}
}

// live is the known state of a thread of this codex process.
type live struct {
	known      bool // codex has described it
	hidden     bool
	writing    bool // codex is asked to write its file
	unwritten  bool // codex is asked so before the first turn, because of Options.LateFiles
	status     codexthread.Status
	changed    time.Time // when it began or ended to run
	waiting    time.Time // since when it waits for a user; zero: it does not
	announced  bool      // that it waits with nobody attached
	subscribed bool
	wanted     bool // a subscription is under way
	held       int  // requests of the manager that need the subscription
	ended      string
	calls      map[string]toolCall
}

func newState(l turnjournal.Journal, now time.Time) state {
	return state{
		records: records{journal: l, threads: map[string]*live{}, since: now, changed: make(chan struct{})},
		began:   now, clients: map[int]Client{}, left: now,
	}
}

// signal wakes those that wait for a change of open, for a new thread, or for a subscription.
func (s *records) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *state) disconnected(err error) {
	s.link, s.lastErr = nil, err
	for _, t := range s.threads {
		t.subscribed, t.wanted, t.calls, t.status = false, false, nil, codexthread.Status{}
	}
	s.signal()
}

func (s *records) thread(id string) *live {
	t := s.threads[id]
	if t == nil {
		t = &live{changed: time.Now()}
		s.threads[id] = t
	}
	return t
}

// forget drops the state of a thread that codex has unloaded. Requests of the manager that hold it load it again.
func (s *records) forget(id string) {
	held := s.thread(id).held
	delete(s.threads, id)
	if held > 0 {
		s.thread(id).held = held
	}
}

// describe records the description by codex. It wakes RecordRequest, unless codex has to write the thread's file first:
// an item for a thread with a running turn makes codex ask the model once more, so a thread that has a record gets
// none.
func (s *state) describe(t codexthread.Thread) (write bool) {
	l := s.thread(t.ID)
	l.known, l.hidden = true, t.Hidden()
	l.writing = !t.Hidden() && t.Forked == "" && t.Preview == "" && s.journal.Threads[t.ID] == nil
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

// ensure returns the record of a thread, and makes a missing one.
func (s *records) ensure(thread string, now time.Time) *turnjournal.Record {
	r := s.journal.Threads[thread]
	if r == nil {
		r = &turnjournal.Record{Since: now, After: s.thread(thread).ended}
		s.journal.Threads[thread] = r
	}
	s.since = now
	return r
}

func (s *records) drop(thread string, now time.Time) {
	delete(s.journal.Threads, thread)
	s.since = now
	s.signal()
}

// alone reports whether a thread has a turn, or will have one, that the manager is not subscribed to.
func (s *state) alone() bool {
	for id, r := range s.journal.Threads {
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

// nobody reports whether nobody is there for an approval.
func (s *state) nobody() bool {
	for _, c := range s.clients {
		if c.present() {
			return false
		}
	}
	return true
}

// busy means that a turn runs or waits for a user. A cut turn is not busy after its user was asked; one that waits
// for quota is.
func (s *state) busy() bool {
	for _, r := range s.journal.Threads {
		if !r.Asked || r.Quota {
			return true
		}
	}
	for _, t := range s.threads {
		if t.status.Active() {
			return true
		}
	}
	return false
}
