package workers

import (
	"errors"
	"time"

	"codex-proxy/workers/accounts"
)

// maxConversations bounds the conversations with a remembered account, of about 200 bytes each.
const maxConversations = 10000

// rotation is the state of the choice by the quota of accounts. All of it is touched under
// the queue's lock.
type rotation struct {
	policy        accounts.Policy
	book          *accounts.Book
	workers       []*Worker // in the order of the book's views
	conversations *accounts.Conversations
	now           func() time.Time

	// known is the book's state of each worker at readAt and that revision. A pick touches
	// much less memory by it.
	known    []known
	readAt   time.Time
	revision uint64

	choice choice // of the current pick: there is one at a time
}

type known struct {
	account accounts.Candidate
	until   time.Time // when an exhausted account may have quota again; zero: unknown
}

// knownFor is the longest time for which the book is not read anew while nothing changes in
// it: few states change by time alone, by the minute.
const knownFor = time.Second

// newRotation returns nil if the quota decides nothing.
func newRotation(workers roster, book *accounts.Book) *rotation {
	if book == nil || !book.Policy().On() {
		return nil
	}
	r := &rotation{
		policy: book.Policy(), book: book, conversations: accounts.NewConversations(maxConversations), now: time.Now,
	}
	for _, v := range book.Views(time.Now()) {
		if w, err := workers.find(v.Name); err == nil {
			r.workers = append(r.workers, w)
		}
	}
	return r
}

// choice is the candidates for one request.
type choice struct {
	ask          Ask
	now          time.Time
	switches     uint64
	candidates   []accounts.Candidate
	options      []option // the values of each candidate
	conversation accounts.Conversation
	held         time.Time // until when the conversation may not rotate; zero: it may
}

type option struct {
	worker  *Worker
	until   time.Time // when an exhausted account may have quota again; zero: unknown
	vacancy error     // why there is no place; nil: there may be one
}

// choose leases the worker of the account that accounts.Choose returns, or the next one if
// that has no place. Mostly the first one has, so the others are not looked at.
func (d *dispatcher) choose(a Ask) (*Lease, error) {
	r := d.rotation
	c := &r.choice
	defer func() { c.ask = Ask{} }() // nothing of the request stays
	r.gather(a, r.now())
	for {
		i := accounts.Choose(r.policy, c.candidates)
		if i < 0 {
			verdict := c.verdict()
			if r.policy.Warm > 0 && oneOf(verdict, errAway, ErrBusy) {
				c.summon(r.policy)
			}
			return nil, verdict
		}
		lease, err := d.leaseOn(c.options[i].worker, a)
		if err == nil {
			r.served(a.Conversation, i)
			return lease, nil
		}
		c.candidates[i].Place, c.options[i].vacancy = false, err
	}
}

// served records that candidate i of the current choice has begun the turn.
func (r *rotation) served(conversation string, i int) {
	c := &r.choice
	next := c.conversation.Served(c.candidates, i, c.switches, c.now)
	if !next.Rotated.Equal(c.conversation.Rotated) {
		r.book.Rotate(conversation, accounts.Rotated{Account: next.Account, At: next.Rotated})
	}
	r.conversations.Put(conversation, next)
}

// find returns the known state of a conversation. The book has the pause of one that an
// earlier process served.
func (r *rotation) find(id string) accounts.Conversation {
	if known := r.conversations.Find(id); id == "" || known.Account != "" {
		return known
	}
	return r.book.Rotation(id)
}

// gather makes the candidates for a request.
func (r *rotation) gather(a Ask, now time.Time) {
	c := &r.choice
	c.ask, c.now, c.switches = a, now, r.book.Switches()
	c.candidates, c.options = c.candidates[:0], c.options[:0]
	r.read(now)
	for i, w := range r.workers {
		if a.allows(w.name) {
			c.add(w, &r.known[i], r.policy.Rotation == accounts.Even)
		}
	}
	c.conversation = r.find(a.Conversation)
	c.held = c.conversation.Held(now)
	c.prefer()
	c.confine()
}

// read takes over the state of the book, if it may have changed.
func (r *rotation) read(now time.Time) {
	revision := r.book.Revision()
	if age := now.Sub(r.readAt); revision == r.revision && age >= 0 && age < knownFor {
		return
	}
	r.known, r.readAt, r.revision = r.known[:0], now, revision
	views, at := r.book.Views(now), 0
	for _, w := range r.workers {
		for views[at].Name != w.name {
			at++
		}
		r.known = append(r.known, known{accounts.CandidateOf(&views[at]), views[at].Until})
	}
}

// add makes the account of the worker a candidate. One that has refused this turn is out.
func (c *choice) add(w *Worker, k *known, even bool) {
	candidate := k.account
	if c.ask.refusedBy(w.name) {
		candidate.State = accounts.Exhausted
	}
	if candidate.Place = true; even {
		candidate.Load = w.load()
	}
	c.candidates = append(c.candidates, candidate)
	c.options = append(c.options, option{worker: w, until: k.until})
}

// prefer marks the account on which the conversation stays.
func (c *choice) prefer() {
	account := c.conversation.Affinity(c.candidates, c.ask.Prefer, c.switches, !c.held.IsZero())
	for i := range c.candidates {
		c.candidates[i].Affinity = c.candidates[i].Name == account
	}
}

// confine takes the places away that the conversation may have only after its pause.
func (c *choice) confine() {
	if c.held.IsZero() {
		return
	}
	for i := range c.candidates {
		o := &c.options[i]
		if c.conversation.Rotates(c.candidates, i, c.switches) && !hopeless(o.worker.vacancy(c.ask)) {
			c.candidates[i].Place, o.vacancy = false, errHeld
		}
	}
}

// vacancy is an error if the worker has no place for the request.
func (w *Worker) vacancy(a Ask) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.vacancy(a, w.settings.MaxInflight)
}

// verdict is why no candidate was chosen.
func (c *choice) verdict() error {
	verdict := errGivenUp
	for i := range c.candidates {
		if o := &c.options[i]; o.vacancy == nil { // its account does not serve
			o.vacancy = o.worker.vacancy(c.ask)
		}
		verdict = nearer(verdict, c.refusal(i))
	}
	switch {
	case errors.Is(verdict, errExhausted):
		return &ExhaustedError{Until: c.until()}
	case errors.Is(verdict, errHeld):
		return &heldError{c.held}
	}
	return verdict
}

// refusal is why the candidate was not chosen. An account that is out and may serve the
// request later is nearer to it than a worker that lacks the model.
func (c *choice) refusal(i int) error {
	account, vacancy := &c.candidates[i], c.options[i].vacancy
	switch {
	case account.Serves(), oneOf(vacancy, ErrNoModel, ErrNotReady):
		return vacancy
	case account.Paused:
		return ErrPaused
	case account.State == accounts.LoginInvalid:
		return ErrLogins
	case oneOf(vacancy, errGivenUp):
		return vacancy
	}
	return errExhausted
}

// until is when the first of the exhausted accounts may have quota again; zero if it is not
// known of any.
func (c *choice) until() (until time.Time) {
	for i := range c.candidates {
		at := c.options[i].until
		if errors.Is(c.refusal(i), errExhausted) && !at.IsZero() && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	return until
}
