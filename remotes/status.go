package remotes

import (
	"slices"
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// Status is the state of a remote for people.
type Status struct {
	Codex    string   `json:"codex,omitempty"` // the detail of Open; empty: not ready
	Attached []Client `json:"attached,omitempty"`
	Turns    []Turn   `json:"turns,omitempty"`
	// Last is the thread that attach resumes; empty: none yet.
	Last string `json:"last,omitempty"`
	// Words are the last words of the model, shortened.
	Words     string    `json:"words,omitempty"`
	WordsAt   time.Time `json:"words_at,omitzero"`
	Continued int       `json:"continued"` // turns that went on after a cut, ever
	GivenUp   int       `json:"given_up"`  // turns that did not, as they had before as often as the settings allow
	// Account is the account in use; empty: none yet, or the remote has a provider of its own.
	Account  string `json:"account,omitempty"`
	Switches int    `json:"switches"` // to another account, ever
	// NoAccount is why no account serves, and QuotaAt when one is expected to; empty and zero: one does, or it is not
	// known.
	NoAccount string    `json:"no_account,omitempty"`
	QuotaAt   time.Time `json:"quota_at,omitzero"`
	// Unknown are requests of clients that this codex-proxy does not know, since the remote has started.
	Unknown []string `json:"unknown_requests,omitempty"`
	// Commands is how many commands the hands have executed since the remote has started.
	Commands int `json:"commands,omitempty"`
	// Ends are the turns that have ended since the remote has started.
	Ends Ends `json:"ends,omitzero"`
	// RestsAt is when the remote stops if nobody comes; zero: not soon. A question in that moment would start it again.
	RestsAt time.Time `json:"rests_at,omitzero"`
}

// Ends are turns that have ended, by codex itself or by their own end: not those that a user has interrupted.
type Ends struct {
	Turns  int    `json:"turns"`
	Faults int    `json:"faults,omitempty"` // as many of them has codex itself failed
	Fault  string `json:"fault,omitempty"`  // the last one, shortened
}

// add counts a turn.
func (e *Ends) add(t codexthread.Turn) {
	if t.Status == codexthread.Interrupted || t.Status == codexthread.Aborted {
		return
	}
	e.Turns++
	if t.Error != nil && t.Error.OfCodex() {
		e.Faults++
		e.Fault = shorten(t.Error.Error())
	}
}

// Turn is a turn that runs, or was cut.
type Turn struct {
	Thread string    `json:"thread"`
	Since  time.Time `json:"since"`
	// WaitingSince is since when it waits for a user; zero: it does not.
	WaitingSince time.Time `json:"waiting_since,omitzero"`
	// AloneSince is since when it waits with nobody attached.
	AloneSince time.Time `json:"alone_since,omitzero"`
	Continued  int       `json:"continued,omitempty"`
	// Cut means that it goes on only if a user wants it.
	Cut bool `json:"cut,omitempty"`
	// Quota means that it goes on by itself when an account has quota.
	Quota bool `json:"quota,omitempty"`
}

// Status describes the remote now.
func (m *Manager) Status() (st Status) {
	m.update(func(s *state) {
		st = s.status()
		if idle(s, m.opts.IdleStop, s.since.Add(m.opts.IdleStop)) {
			st.RestsAt = s.since.Add(m.opts.IdleStop)
		}
	})
	if m.opts.Hands != nil {
		st.Commands = m.opts.Hands.Commands()
	}
	if m.opts.Accounts != nil {
		st.NoAccount, st.QuotaAt = m.opts.Accounts.Denied()
	}
	return st
}

// ReadState describes a remote that does not run, by its turn journal.
func ReadState(dir string) (Status, error) {
	l, err := turnjournal.Read(dir)
	s := newState(l, time.Time{})
	return s.status(), err
}

func (s *state) status() Status {
	st := Status{Last: s.journal.Last, Words: s.journal.Words, WordsAt: s.journal.WordsAt,
		Continued: s.journal.Continued, GivenUp: s.journal.GivenUp, Account: s.journal.Account,
		Switches: s.journal.Switches, Unknown: slices.Clone(s.unknown), Ends: s.ends}
	if s.link != nil {
		st.Codex = s.detail
	}
	for _, c := range s.clients {
		st.Attached = append(st.Attached, c)
	}
	slices.SortFunc(st.Attached, func(a, b Client) int { return a.Since.Compare(b.Since) })
	for _, id := range s.journal.IDs() {
		r := s.journal.Threads[id]
		t := Turn{Thread: id, Since: r.Since, Continued: r.Continued, Cut: r.Asked && !r.Quota, Quota: r.Quota}
		if at := s.threads[id]; at != nil && !at.waiting.IsZero() {
			t.WaitingSince = at.waiting
			if s.nobody() {
				t.AloneSince = latest(at.waiting, s.left)
			}
		}
		st.Turns = append(st.Turns, t)
	}
	return st
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
