package units

// RestartCounter counts the automatic restarts of one unit from its states, in their order.
// It never decreases, while NRestarts also counts the restart that the start limit refused,
// and a reset sets it to zero.
type RestartCounter struct {
	Total uint64

	observed   bool
	counted    uint32 // NRestarts up to the current invocation
	invocation string
}

// Observe counts the restarts since the last state. A restart is a new invocation that began
// by itself. The first state counts none.
func (c *RestartCounter) Observe(s State) {
	started := s.InvocationID != c.invocation
	if c.observed && started && s.InvocationID != "" && s.NRestarts > 0 {
		c.Total += max(1, uint64(s.NRestarts)-uint64(min(c.counted, s.NRestarts)))
	}
	c.counted = min(c.counted, s.NRestarts)
	if started {
		c.counted = s.NRestarts
	}
	c.observed, c.invocation = true, s.InvocationID
}
