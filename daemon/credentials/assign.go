package credentials

import (
	"context"
	"slices"
	"time"

	"codex-proxy/internal/unixtime"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/broker"
)

// would reports whether a remote would get another account than the one that it holds.
func (b *Broker) would(remote string, held broker.Ask) bool {
	held.Have = true
	held, err := b.within(remote, held)
	if err != nil {
		return true // it learns why
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	cs, assignment := b.choose(remote, held, nil, time.Now())
	return assignment.Index >= 0 && cs[assignment.Index].Name != held.Hold
}

// assign answers an ask of a remote.
func (b *Broker) assign(_ context.Context, remote string, ask broker.Ask) (broker.Assignment, error) {
	now := time.Now()
	ask, err := b.within(remote, ask)
	if err != nil {
		return broker.Assignment{}, err
	}
	switch ask.Refused {
	case broker.UsageLimit:
		if b.holds(remote, ask.Hold) {
			b.store.Refuse(ask.Hold, unixtime.Of(ask.ResetsAt), now)
		}
	case broker.Unauthorized:
		b.store.Doubt(ask.Hold, now)
	}
	out := slices.Clone(ask.Avoid)
	var failed error
	for {
		b.mu.Lock()
		cs, assignment := b.choose(remote, ask, out, now)
		if assignment.Index < 0 {
			b.mu.Unlock()
			return broker.Assignment{}, b.refusal(ask, cs, assignment, failed)
		}
		chosen := cs[assignment.Index].Name
		if ask.Waits && cs[assignment.Index].State == accounts.Exhausted { // a rotation chooses no such account
			b.mu.Unlock()
			v, _ := b.store.View(chosen, now)
			return broker.Assignment{}, exhaustedUntil(v.Until, false)
		}
		if chosen == ask.Hold && ask.Have && ask.Refused == "" {
			b.record(remote, ask, assignment, now)
			b.mu.Unlock()
			return broker.Assignment{Account: chosen}, nil
		}
		b.mu.Unlock()
		worker, err := b.workers.Connect(chosen, broker.QuestionFor(ask))
		if err != nil {
			failed = err
			out = append(out, chosen)
			continue
		}
		b.mu.Lock()
		b.record(remote, ask, assignment, now)
		b.mu.Unlock()
		b.metrics.loans.WithLabelValues(chosen).Inc()
		answer := broker.Assignment{Account: chosen, Worker: worker}
		if ask.Hold != "" && ask.Hold != chosen {
			answer.Why = b.why(ask, now)
			b.metrics.switches.WithLabelValues(ask.Hold, answer.Why).Inc()
		}
		return answer, nil
	}
}

// holds reports whether the remote may hold the account, as far as this process knows.
func (b *Broker) holds(remote, account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.clients[remote]
	return known.now.Account == "" || known.now.Account == account || known.before.Account == account
}

// choose is the choice of the accounts for the ask, without those that are out. It is under the lock.
func (b *Broker) choose(remote string, ask broker.Ask, out []string,
	now time.Time) ([]accounts.Candidate, accounts.Assignment) {
	var cs []accounts.Candidate
	for _, v := range b.store.Views(now) {
		if len(ask.Accounts) > 0 && !slices.Contains(ask.Accounts, v.Name) {
			continue
		}
		c := accounts.CandidateOf(&v)
		known := !v.Login.At.IsZero()
		has := ask.Have && ask.Refused == "" && v.Name == ask.Hold // it needs no worker
		c.Place = (!known || v.Login.Type == "chatgpt") && !slices.Contains(out, v.Name) &&
			(has || b.workers.SharesLogin(v.Name))
		cs = append(cs, c)
	}
	c := accounts.Client{Limited: ask.Refused == broker.UsageLimit, Turn: ask.Turn}
	c.Conversation = b.conversation(remote, ask)
	return cs, accounts.Assign(b.store.Policy(), cs, c, b.store.Switches(), now)
}

// conversation is the remote's conversation. The store has the pause of one that an earlier process served.
func (b *Broker) conversation(remote string, ask broker.Ask) accounts.Conversation {
	known := b.clients[remote]
	c := known.now
	switch {
	case c.Account == "":
		c = b.store.Rotations.Find(conversationOf(remote), b.store.Switches())
	case c.Account != ask.Hold && ask.Hold != "" && ask.Hold == known.before.Account:
		c = known.before // its new account has sent no login
	}
	if ask.Hold != "" {
		c.Account = ask.Hold
	}
	return c
}

// conversationOf is the name of a remote's turns in the store. No conversation of the API has such a name.
func conversationOf(remote string) string { return "remote " + remote }

// record keeps the assignment. The caller holds the lock.
func (b *Broker) record(remote string, ask broker.Ask, assignment accounts.Assignment, now time.Time) {
	before := b.conversation(remote, ask)
	if assignment.Next.Account != before.Account && assignment.Next.Rotated.Equal(now) {
		b.store.Rotations.Put(conversationOf(remote), accounts.Rotated{Account: assignment.Next.Account, At: now})
	}
	known := client{now: assignment.Next, before: b.clients[remote].before}
	if assignment.Next.Account != before.Account {
		known.before = before
	}
	b.clients[remote] = known
}
