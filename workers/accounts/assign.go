package accounts

import "time"

// Client uses the login of an account in addition to the workers, such as a remote. Its turns are one
// conversation.
type Client struct {
	Conversation
	// Limited means that Account refused a request for its quota.
	Limited bool
	// Turn means that a turn runs: the account changes only if it must.
	Turn bool
}

// Assignment is the choice for a TokenSource.
type Assignment struct {
	// Index is the index of the candidate; -1 if none lends now.
	Index int
	// Until is when an account may lend that may not before, because of RotationPause; zero without one.
	Until time.Time
	// Next is the client's conversation from now on.
	Next Conversation
}

// Assign chooses by the same rules as Choose. While the policy is not On, the client keeps its account, and begins
// with the first one that lends. It may change the candidates.
func Assign(p Policy, cs []Candidate, b Client, switches uint64, now time.Time) Assignment {
	own := -1
	for i := range cs {
		if cs[i].Name == b.Account {
			own = i
		}
	}
	if own >= 0 && b.Limited {
		cs[own].State = Exhausted
	}
	l := Assignment{Index: -1, Next: b.Conversation}
	switch {
	case !p.On():
		l.Index = assignOff(cs, own, b)
	case own >= 0 && b.Turn && cs[own].Place && cs[own].State.Serves():
		l.Index = own
	default:
		l.Until = b.excludePaused(cs, switches, now)
		affinity := b.Affinity(cs, b.Account, switches, !b.Held(now).IsZero())
		for i := range cs {
			cs[i].Affinity = cs[i].Name == affinity
		}
		l.Index = Choose(p, cs)
	}
	if l.Index >= 0 {
		l.Next = b.Served(cs, l.Index, switches, now)
	}
	return l
}

// assignOff is the choice without a rotation. An operator's pause holds between turns.
func assignOff(cs []Candidate, own int, b Client) int {
	if own >= 0 && (b.Turn || !cs[own].Paused) {
		if b.Limited || !cs[own].Place {
			return -1
		}
		return own
	}
	for i := range cs {
		if cs[i].Place && !cs[i].Paused {
			return i
		}
	}
	return -1
}

// excludePaused takes the places away that the client may have only after its pause, and returns its end if there are
// any.
func (b *Client) excludePaused(cs []Candidate, switches uint64, now time.Time) (until time.Time) {
	held := b.Held(now)
	if held.IsZero() {
		return held
	}
	for i := range cs {
		if b.Rotates(cs, i, switches) {
			if cs[i].Place && cs[i].Serves() {
				until = held
			}
			cs[i].Place = false
		}
	}
	return until
}
