package daemon

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/workers"
)

// inflight is what one process of the row has in flight, together with those
// further away from the receiver. All processes hold max_inflight of a
// worker and the limits of an API key together, by these rules:
//
//   - The successor gets it with take, so that it counts before it serves, and then
//     with every change. When the socket closes, nothing is left of it.
//   - Only the process that has no successor takes a place at once. Any other counts
//     the place first, sends it as a claim with a number, and waits until its
//     neighbour has confirmed that claim. The neighbour's own inflight comes with
//     the confirmation; if there is no room with it, the place is given back. So two
//     that take the last place at the same time never both keep it.
//   - A claim of a process before that one is passed on as one of its own.
//   - A process before that has requests that wait gets every change, too.
//
// It is part of the news of a hand-off. Version 0.1.0 has no such news, but answers
// any with its turns: it is asked again and again, and its turns count against
// max_inflight, and against no limit of a key. As a successor it never answers a
// claim, and claimBound ends the first wait and all later ones: each of the two
// counts alone.
type inflight struct {
	Workers map[string]workers.Load  `json:"workers,omitempty"`
	Keys    map[string]limits.KeyUse `json:"keys,omitempty"`
	Waits   bool                     `json:"waits,omitempty"`  // requests wait for a place
	Claims  uint64                   `json:"claims,omitempty"` // so many are in it
	Heard   uint64                   `json:"heard,omitempty"`  // so many of the receiver's are counted
}

// plus is both together. The numbers are of no use then.
func (f inflight) plus(o inflight) inflight {
	sum := inflight{Workers: maps.Clone(f.Workers), Keys: maps.Clone(f.Keys), Waits: f.Waits || o.Waits}
	if sum.Workers == nil {
		sum.Workers = map[string]workers.Load{}
	}
	for name, l := range o.Workers {
		sum.Workers[name] = sum.Workers[name].Plus(l)
	}
	if sum.Keys == nil {
		sum.Keys = map[string]limits.KeyUse{}
	}
	for name, u := range o.Keys {
		sum.Keys[name] = sum.Keys[name].Plus(u)
	}
	return sum
}

// claimBound is the longest that a claim waits for its confirmation: with a neighbour
// that hangs, turns go on.
const claimBound = 5 * time.Second

// neighbours is what is known of the processes before and after this one.
type neighbours struct {
	mu            sync.Mutex
	before, after inflight
	asks          bool          // places are claimed
	deaf          bool          // the successor has not confirmed a claim in time
	claims        uint64        // that we have made, for processes before us, too
	passed        uint64        // of the claims of the process before, with which ...
	passedAs      uint64        // ... claim of ours
	answered      uint64        // of those claims
	changed       chan struct{} // closed and replaced when after or asks has changed
}

func newNeighbours() neighbours { return neighbours{changed: make(chan struct{})} }

// change is the one door for what claims wait for.
func (n *neighbours) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// claim is workers.Settings.Claim and limits.Settings.Claim.
func (d *Daemon) claim() bool {
	n := &d.neighbours
	n.mu.Lock()
	if !n.asks {
		n.mu.Unlock()
		return false
	}
	n.claims++
	mine := n.claims
	n.mu.Unlock()
	d.touchTurns()
	d.awaitHeard(mine)
	return true
}

func (d *Daemon) awaitHeard(claim uint64) {
	n := &d.neighbours
	bound := time.NewTimer(claimBound)
	defer bound.Stop()
	for {
		n.mu.Lock()
		done, changed := !n.asks || n.deaf || n.after.Heard >= claim, n.changed
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-bound.C: // it hangs, or is of a version that does not answer
			n.change(func() { n.deaf = true })
			d.logger.Warn("the process that took over does not answer: each counts what is in flight alone")
		}
	}
}

// ask makes places be claimed from now on, or not any more.
func (n *neighbours) ask(asks bool) {
	n.change(func() { n.asks = asks })
}

// heardBefore takes over what the process before has in flight.
func (d *Daemon) heardBefore(f inflight) {
	n := &d.neighbours
	n.mu.Lock()
	n.before = f
	if f.Claims > n.passed && n.asks {
		n.claims++
		n.passedAs = n.claims
	}
	n.passed = f.Claims
	n.mu.Unlock()
	d.countElsewhere()
	d.wakeQueue()
	d.touchTurns()
}

// heardAfter takes over what the processes after this one have in flight.
func (d *Daemon) heardAfter(f inflight) {
	n := &d.neighbours
	n.mu.Lock()
	n.after.Workers, n.after.Keys = f.Workers, f.Keys
	n.mu.Unlock()
	d.countElsewhere() // before a claim goes on
	n.change(func() { n.after.Heard, n.deaf = max(n.after.Heard, f.Heard), false })
	d.wakeQueue()
	d.touchTurns()
}

func (d *Daemon) countElsewhere() {
	n := &d.neighbours
	n.mu.Lock()
	defer n.mu.Unlock() // one at a time, or the older one might come last
	all := n.before.plus(n.after)
	d.pool.SetPeerLoads(all.Workers)
	d.server.Limiter.KeysElsewhere(all.Keys)
}

// recallInflight begins with what the predecessor has in flight.
func (d *Daemon) recallInflight(m memory) {
	if d.handoff.mute = m.Load == nil; d.handoff.mute {
		return
	}
	d.server.Limiter.RecallKeys(m.KeyLevels, m.Load.Keys)
	d.heardBefore(*m.Load)
}

// own is what this process has in flight.
func (d *Daemon) own() inflight {
	return inflight{Workers: d.pool.Loads(), Keys: d.server.Limiter.KeyUses(), Waits: d.pool.Waiting() > 0}
}

// forSuccessor is what the successor has to count.
func (d *Daemon) forSuccessor() inflight {
	n := &d.neighbours
	n.mu.Lock()
	claims, before := n.claims, n.before // before the rest is looked at, so that they are in it
	n.mu.Unlock()
	f := d.own().plus(before)
	f.Claims = claims
	return f
}

// forPredecessor is what the process before has to count; false means that nothing
// has to be sent.
func (d *Daemon) forPredecessor() (f inflight, due bool) {
	n := &d.neighbours
	n.mu.Lock()
	defer n.mu.Unlock()
	heard := n.passed
	if n.asks && !n.deaf && n.after.Heard < n.passedAs {
		heard = n.answered
	}
	due = n.before.Waits || heard > n.answered
	n.answered = heard
	if !due {
		return f, false
	}
	f = d.own().plus(n.after)
	f.Heard = heard
	return f, true
}

// touchTurns has tellInflight send the news to the neighbours, if there are any.
func (d *Daemon) touchTurns() {
	if d.replaced() || d.handoff.last() != nil {
		touch(d.turns)
	}
}

func (d *Daemon) wakeQueue() { touch(d.places) }

// wakeQueues wakes the queue when other processes have given places back, until ctx
// ends. heardBefore and heardAfter must not do so: a claim is made under the queue's
// lock, and they have to receive the answer.
func (d *Daemon) wakeQueues(ctx context.Context) error {
	for {
		select {
		case <-d.places:
			d.pool.Wake()
		case <-ctx.Done():
			return nil
		}
	}
}

func touch(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a token that nobody has taken yet covers this change too
	}
}

// tellInflight sends every change to the neighbours, until ctx ends.
func (d *Daemon) tellInflight(ctx context.Context) error {
	for {
		select {
		case <-d.turns:
		case <-ctx.Done():
			return nil
		}
		if d.replaced() {
			f := d.forSuccessor()
			d.handoff.successor.Send(handoff.Turns, turnsBefore{News: d.newsHeard.Load(), Inflight: d.inflight(), Load: &f})
		}
		if d.handoff.last() == nil {
			continue
		}
		if f, due := d.forPredecessor(); due {
			d.handoff.predecessor.Send(handoff.Load, after{&f})
		}
	}
}

// after is the news of a successor about itself.
type after struct {
	Load *inflight `json:"load"`
}

// askEvery is how often a mute predecessor is asked for its turns: so late is a place
// of its own free here.
const askEvery = 500 * time.Millisecond

// askForTurns asks a mute predecessor for its turns in flight, as long as there is
// one: it does not report the end of each turn, but answers news.
func (d *Daemon) askForTurns(ctx context.Context) error {
	select {
	case <-d.handoff.started:
	case <-ctx.Done():
		return nil
	}
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for d.handoff.mute && d.handoff.last() != nil {
		d.ask()
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// ask sends a drain of no worker, which changes nothing.
func (d *Daemon) ask() {
	d.keyTable.mu.Lock()
	defer d.keyTable.mu.Unlock()
	d.handoff.news++
	d.handoff.predecessor.Send(handoff.Drains, control.Drain{})
}

// load is what a predecessor has reported.
func (t turnsBefore) load() inflight {
	if t.Load != nil {
		return *t.Load
	}
	f := inflight{Workers: map[string]workers.Load{}}
	for name, n := range t.Inflight {
		f.Workers[name] = workers.Load{Turns: n}
	}
	return f
}

// heardLoad takes over what a successor has in flight.
func (d *Daemon) heardLoad(raw json.RawMessage) {
	var a after
	if json.Unmarshal(raw, &a) == nil && a.Load != nil {
		d.heardAfter(*a.Load)
	}
}
