package rpc

// state is everything of a connection that changes under its mutex. Invariants:
//   - err is set once, and done is closed in the same step;
//   - pending has an entry for every request that was handed to the writer and is not answered yet, also after its
//     caller has stopped waiting.
type state struct {
	err     error
	lastID  int64
	pending map[int64]*pending
	control [][]byte // messages that go before all others
}

// update runs f, which must not block, with the state locked.
func (c *Conn) update(f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

// takeDetached removes the late functions of the replies that the end of the connection has made impossible. Their
// entries stay, as replies may still arrive in the message at hand.
func (s *state) takeDetached() (late []func(Reply)) {
	for id, p := range s.pending {
		if p.reply == nil && p.late != nil {
			late = append(late, p.late)
			s.pending[id] = &pending{}
		}
	}
	return late
}
