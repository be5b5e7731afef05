package dispatch

import (
	"errors"
	"time"

	"codex-proxy/workers/accounts"
)

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
	worker  Worker
	until   time.Time // when an exhausted account may have quota again; zero: unknown
	vacancy error     // why there is no place; nil: there may be one
}

// add makes the account of the worker a candidate. One that has refused this turn is out.
func (c *choice) add(w Worker, k *known, even bool) {
	candidate := k.account
	if c.ask.refusedBy(w.Name()) {
		candidate.State = accounts.Exhausted
	}
	if candidate.Place = true; even {
		candidate.Load = w.Load()
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
		if c.conversation.Rotates(c.candidates, i, c.switches) && !hopeless(o.worker.Vacancy(c.ask)) {
			c.candidates[i].Place, o.vacancy = false, errHeld
		}
	}
}

// verdict is why no candidate was chosen.
func (c *choice) verdict() error {
	verdict := ErrGivenUp
	for i := range c.candidates {
		if o := &c.options[i]; o.vacancy == nil { // its account does not serve
			o.vacancy = o.worker.Vacancy(c.ask)
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
	case oneOf(vacancy, ErrGivenUp):
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

// summon starts the standby of the best account that may serve the request, for one that no
// ready worker can serve or has a free place for, unless such a worker is starting already.
func (c *choice) summon(p accounts.Policy) {
	for i := range c.candidates {
		account, o := &c.candidates[i], c.options[i]
		if account.Place = false; !account.Serves() || !oneOf(o.vacancy, ErrAway) {
			continue
		}
		switch o.worker.Phase() {
		case accounts.Coming:
			return
		case accounts.Cold:
			account.Place = true
		}
	}
	if i := accounts.Choose(p, c.candidates); i >= 0 {
		c.options[i].worker.Want()
	}
}
