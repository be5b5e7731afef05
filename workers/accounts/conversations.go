package accounts

import (
	"container/list"
	"time"
)

// Conversation is where the turns of a conversation ran.
type Conversation struct {
	// Account ran the last turn; empty if none is known.
	Account string
	// Rotated is the time of the last rotation; zero before the first.
	Rotated time.Time
	// Switches is how often the operator had switched the account in use by then.
	Switches uint64
}

// Held is the end of the pause after the conversation's last rotation, if it is not over at
// now; zero otherwise.
func (c Conversation) Held(now time.Time) time.Time {
	if end := c.Rotated.Add(RotationPause); !c.Rotated.IsZero() && now.Before(end) {
		return end
	}
	return time.Time{}
}

// Rotates reports whether a turn of the conversation on candidate i is a rotation: it
// leaves the account of the turn before because that is not available, or because the
// operator has switched since. A turn that another account runs because the one before is
// full, or its worker is down, is none. Candidates with one quota are one account.
func (c Conversation) Rotates(cs []Candidate, i int, switches uint64) bool {
	if c.Account == "" || c.Account == cs[i].Name {
		return false
	}
	for j := range cs {
		if cs[j].Name == c.Account {
			same := cs[j].Quota != "" && cs[j].Quota == cs[i].Quota
			return !same && (c.Switches != switches || !cs[j].Available())
		}
	}
	return false // it has no worker any more, or the request may not use it
}

// Served is the conversation after candidate i has begun its turn.
func (c Conversation) Served(cs []Candidate, i int, switches uint64, now time.Time) Conversation {
	next := Conversation{Account: cs[i].Name, Rotated: c.Rotated, Switches: c.Switches}
	rotates := c.Rotates(cs, i, switches)
	if rotates {
		next.Rotated = now
	}
	if rotates || c.Account == "" || cs[i].InUse { // it follows a switch, sooner or later
		next.Switches = switches
	}
	return next
}

// Affinity is the account on which the conversation stays while that is available; empty if
// there is none. prefer is the account that has the conversation's thread or response, as
// far as it is known from elsewhere; it is the better guess, as conversations with one
// beginning share an identity. A switch by the operator ends the affinity of turns before
// it, once the pause is over.
func (c Conversation) Affinity(cs []Candidate, prefer string, switches uint64, held bool) string {
	if c.Switches != switches && !held {
		return ""
	}
	for i := range cs {
		if cs[i].Name == prefer && cs[i].Available() {
			return prefer
		}
	}
	if c.Account == "" {
		return prefer
	}
	return c.Account
}

// Conversations are the latest conversations, in a bounded number. They are not safe for
// concurrent use.
type Conversations struct {
	limit  int
	byID   map[string]*list.Element
	oldest list.List // of *remembered; the one unused for longest is in front
}

type remembered struct {
	id string
	Conversation
}

// NewConversations has room for so many conversations, at least one.
func NewConversations(limit int) *Conversations {
	return &Conversations{limit: limit, byID: map[string]*list.Element{}}
}

// Find returns the conversation; a zero one if it is not known.
func (c *Conversations) Find(id string) Conversation {
	if e := c.byID[id]; e != nil {
		return e.Value.(*remembered).Conversation
	}
	return Conversation{}
}

// Put records where the conversation is. An empty id is no conversation.
func (c *Conversations) Put(id string, now Conversation) {
	if id == "" {
		return
	}
	if e := c.byID[id]; e != nil {
		e.Value.(*remembered).Conversation = now
		c.oldest.MoveToBack(e)
		return
	}
	c.byID[id] = c.oldest.PushBack(&remembered{id, now})
	if c.oldest.Len() > c.limit {
		delete(c.byID, c.oldest.Remove(c.oldest.Front()).(*remembered).id)
	}
}
