package accounts

// Next is the account that is in use after something has changed, if current was before and
// the rotation is Ordered: the same until it is low, and then the next one in order that is
// available, or else unknown, or else low. Without one that serves it is current. Views are
// in order.
func Next(views []View, current string) string {
	start := 0
	for i := range views {
		if views[i].Name == current {
			start = i
		}
	}
	for rank := range lastRank + 1 {
		for i := range views {
			v := &views[(start+i)%len(views)]
			if v.rank(current) == rank {
				return v.Name
			}
		}
	}
	return current
}

// lastRank is the rank of a low account; an account that does not serve has none.
const lastRank = 2

// rank is 0 for the best. An unknown value is no reason to leave an account, nor to go to it.
func (v *View) rank(current string) int {
	switch {
	case v.Paused || !v.State.Serves():
		return lastRank + 1
	case v.State == Available, v.State == Unknown && v.Name == current:
		return 0
	case v.State == Unknown:
		return 1
	}
	return lastRank
}
