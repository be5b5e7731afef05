package accounts

import "cmp"

// Choose returns the index of the candidate that runs a turn now, and -1 if none can. It is
// for a policy that is On.
//
// Only a candidate that serves and has a place is chosen, and one that is low only if no
// available one has a place. Among those, the account with the conversation's thread comes
// first. Then Ordered takes the account in use and the next ones in order, Even the account
// with the most left, of equal ones the one with the fewest turns in flight.
func Choose(p Policy, cs []Candidate) int {
	best, after := -1, inUse(cs)
	var most float64
	if p.Rotation == Even {
		most = mostLeft(cs)
	}
	for i := range cs {
		if !cs[i].Place || !cs[i].Serves() {
			continue
		}
		if best < 0 || order(p, cs, i, best, after, most) < 0 {
			best = i
		}
	}
	return best
}

// order is negative if candidate i is to be chosen before candidate j.
func order(p Policy, cs []Candidate, i, j, inUse int, most float64) int {
	a, b := &cs[i], &cs[j]
	if c := cmp.Or(trueFirst(a.Available(), b.Available()), trueFirst(a.Affinity, b.Affinity)); c != 0 {
		return c
	}
	if p.Rotation == Ordered {
		return cmp.Compare(distance(i, inUse, len(cs)), distance(j, inUse, len(cs)))
	}
	return cmp.Or(cmp.Compare(b.left(most), a.left(most)), cmp.Compare(a.Load, b.Load), cmp.Compare(i, j))
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// inUse is the index of the account in use; 0 without one.
func inUse(cs []Candidate) int {
	for i := range cs {
		if cs[i].InUse {
			return i
		}
	}
	return 0
}

// distance is how far candidate i is behind the one in use; the order goes on at its begin.
func distance(i, inUse, n int) int { return (i - inUse + n) % n }

// mostLeft is the most that any available candidate with windows has left, and 1 if there is
// none.
func mostLeft(cs []Candidate) float64 {
	most := -1.0
	for i := range cs {
		if c := &cs[i]; c.Available() && c.Place && !c.Limitless {
			most = max(most, c.Left)
		}
	}
	if most < 0 {
		return 1
	}
	return most
}

// left is the quota that the candidate has left. One without windows is level with the best, so that
// it takes its part of the turns, by load, and neither all of them nor none.
func (c *Candidate) left(most float64) float64 {
	if c.Limitless {
		return most
	}
	return c.Left
}
