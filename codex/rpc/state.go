package rpc

import "sync"

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

// calls are the requests of a connection, and the end of it.
type calls struct {
	done  chan struct{}
	mu    sync.Mutex
	state state
}

// Done is closed when the connection is.
func (c *calls) Done() <-chan struct{} { return c.done }

// Err is nil while the connection is open, then the cause of its end.
func (c *calls) Err() (err error) {
	c.update(func(s *state) { err = s.err })
	return err
}

// update runs f, which must not block, with the state locked.
func (c *calls) update(f func(*state)) {
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

func (c *calls) register(p *pending) (id int64, err error) {
	c.update(func(s *state) {
		if err = s.err; err == nil {
			s.lastID++
			id = s.lastID
			s.pending[id] = p
		}
	})
	return id, err
}

// abandon stops waiting for the reply to id. It returns false when the reply has been delivered already.
func (c *calls) abandon(id int64) (abandoned bool) {
	c.update(func(s *state) {
		_, abandoned = s.pending[id]
		delete(s.pending, id)
	})
	return abandoned
}

// detach stops waiting for the reply to r, which late will handle. It returns false when the reply has been delivered
// already, and the cause when the connection is closed: then late does not run.
func (c *calls) detach(r Request, late func(Reply)) (detached bool, err error) {
	c.update(func(s *state) {
		if _, detached = s.pending[r.id]; !detached {
			return
		}
		delete(s.pending, r.id)
		if err = s.err; err == nil {
			s.pending[r.id] = &pending{method: r.method, late: late}
		}
	})
	return detached, err
}
