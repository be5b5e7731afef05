package dispatch

import (
	"slices"
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
)

// maxConversations bounds the conversations with a remembered account, of about 200 bytes each.
const maxConversations = 10000

// rotation is the state of the choice by the quota of accounts. All of it is touched under
// the queue's lock.
type rotation struct {
	policy        accounts.Policy
	accountStore  *accounts.Store
	workers       []Worker // in the order of the store's views
	conversations *accounts.Conversations

	// state is the store's state of each worker at readAt and that revision. A pick touches
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

// knownFor is the longest time for which the store is not read anew while nothing changes in
// it: few states change by time alone, by the minute.
const knownFor = time.Second

// newRotation returns nil if the quota decides nothing.
func newRotation(workers []Worker, store *accounts.Store) *rotation {
	if store == nil || !store.Policy().On() {
		return nil
	}
	r := &rotation{
		policy: store.Policy(), accountStore: store, conversations: accounts.NewConversations(maxConversations),
	}
	for _, v := range store.Views(time.Now()) {
		for _, w := range workers {
			if w.Name() == v.Name {
				r.workers = append(r.workers, w)
			}
		}
	}
	return r
}

// choose leases the worker of the account that accounts.Choose returns, or the next one if
// that has no place. Mostly the first one has, so the others are not looked at.
func (p *Picker) choose(a Ask) (*Lease, error) {
	r := p.rotation
	c := &r.choice
	defer func() { c.ask = Ask{} }() // nothing of the request stays
	r.gather(a, p.Now())
	for {
		i := accounts.Choose(r.policy, c.candidates)
		if i < 0 {
			verdict := c.verdict()
			if r.policy.Warm > 0 && oneOf(verdict, ErrAway, ErrBusy) {
				c.summon(r.policy)
			}
			return nil, verdict
		}
		lease, err := p.leaseOn(c.options[i].worker, a)
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
		r.accountStore.Rotations.Put(conversation, accounts.Rotated{Account: next.Account, At: next.Rotated})
	}
	r.conversations.Put(conversation, next)
}

// find returns the known state of a conversation. The store has the pause of one that an
// earlier process served.
func (r *rotation) find(id string) accounts.Conversation {
	if known := r.conversations.Find(id); id == "" || known.Account != "" {
		return known
	}
	return r.accountStore.Rotations.Find(id, r.choice.switches)
}

// gather makes the candidates for a request.
func (r *rotation) gather(a Ask, now time.Time) {
	c := &r.choice
	c.ask, c.now, c.switches = a, now, r.accountStore.Switches()
	c.candidates, c.options = c.candidates[:0], c.options[:0]
	r.read(now)
	for i, w := range r.workers {
		if a.allows(w.Name()) {
			c.add(w, &r.known[i], r.policy.Rotation == accounts.Even)
		}
	}
	c.conversation = r.find(a.Conversation)
	c.held = c.conversation.Held(now)
	c.prefer()
	c.confine()
}

// read takes over the state of the store, if it may have changed.
func (r *rotation) read(now time.Time) {
	revision := r.accountStore.Revision()
	if age := now.Sub(r.readAt); revision == r.revision && age >= 0 && age < knownFor {
		return
	}
	r.known, r.readAt, r.revision = r.known[:0], now, revision
	views, at := r.accountStore.Views(now), 0
	for _, w := range r.workers {
		for views[at].Name != w.Name() {
			at++
		}
		r.known = append(r.known, known{accounts.CandidateOf(&views[at]), views[at].Until})
	}
}

// report adds to the snapshot which accounts are out. A nil rotation adds nothing.
func (r *rotation) report(snap *probes.Snapshot) {
	if r == nil {
		return
	}
	snap.ReadyWhenExhausted = r.policy.ReadyWhenExhausted
	views := r.accountStore.Views(snap.At)
	for n := range views {
		v := &views[n]
		out := outOf(v)
		if out == "" { // mostly
			continue
		}
		i := slices.IndexFunc(snap.Workers, func(w probes.Worker) bool { return w.Name == v.Name })
		if i < 0 {
			continue
		}
		if out == probes.QuotaExhausted && !v.Until.IsZero() &&
			(snap.QuotaBack.IsZero() || v.Until.Before(snap.QuotaBack)) {
			snap.QuotaBack = v.Until
		}
		snap.Workers[i].Out = out
	}
}

// outOf is why the account runs no turns; empty if it runs them.
func outOf(v *accounts.View) probes.Reason {
	switch {
	case v.Paused:
		return probes.Draining
	case v.State == accounts.LoginInvalid:
		return probes.LoginInvalid
	case v.State == accounts.Exhausted:
		return probes.QuotaExhausted
	}
	return ""
}
