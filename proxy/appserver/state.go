package appserver

import "sync"

// door is the only way to the state of a connection.
type door struct {
	mu    sync.Mutex
	state state
}

// state is everything of a connection that changes. Invariants:
//   - err is set once, and done is closed in the same step;
//   - pending has an entry for every request that was handed to the writer and not
//     answered yet, also when nobody waits for that any more;
//   - threads has an entry from the reply to thread/start until the turn is known
//     to have ended and thread/unsubscribe is sent.
type state struct {
	err     error
	lastID  int64
	pending map[int64]*pending
	threads map[string]*mailbox
	control [][]byte // messages that go before all others
	ahead   ahead
}

func newDoor() door {
	return door{state: state{pending: map[int64]*pending{}, threads: map[string]*mailbox{}}}
}

// enter runs f alone with the state. f must not block.
func (d *door) enter(f func(*state)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.state)
}

// unanswered takes what was to run at a reply, or at the start of a turn, which will
// not come any more.
func (s *state) unanswered() (late []func(incoming)) {
	for id, p := range s.pending {
		if p.reply == nil && p.late != nil {
			late = append(late, p.late)
			s.pending[id] = &pending{}
		}
	}
	for _, box := range s.threads {
		if f := box.onStart; f != nil {
			late = append(late, func(incoming) { f() })
			box.onStart = nil
		}
	}
	return late
}
