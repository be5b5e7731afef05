package queue

import (
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// state has the commands that have not ended. All else is in the store.
type state struct {
	order   order
	lines   map[string]*line // by sessions
	running int
	perUser map[uint32]int // running
	waiting int            // commands of all lines
}

// line has the commands of a session in their order.
type line struct {
	owner   uint32
	network bool
	waiting []waiting
	queued  bool // the first one is in the order
	running bool
	leased  bool // it has a workspace, or gets one now
	closing bool // the session is to be closed at the end of its last command
}

type waiting struct {
	number int
	ready  bool      // it has its standard input
	since  time.Time // when it was queued
}

// line returns the line of the session of a command.
func (s *state) line(c store.Live) *line {
	l := s.lines[c.Session]
	if l == nil {
		l = &line{owner: c.Owner, network: c.Network}
		s.lines[c.Session] = l
	}
	return l
}

// enqueue adds a command to the line of its session.
func (s *state) enqueue(c store.Live) {
	l := s.line(c)
	l.leased = l.leased || c.Leased
	l.waiting = append(l.waiting, waiting{c.Number, c.State != wire.CommandAwaitingStdin, time.Now()})
	s.waiting++
	s.place(c.Session)
}

// place puts the first command of a session into the order, if it may start.
func (s *state) place(session string) {
	l := s.lines[session]
	if l.queued || l.running || len(l.waiting) == 0 || !l.waiting[0].ready {
		return
	}
	l.queued = true
	s.order.push(l.owner, Key{session, l.waiting[0].number})
}

// remove takes a command that waits out of its line, and reports whether it was there.
func (s *state) remove(k Key) bool {
	l := s.lines[k.Session]
	if l == nil {
		return false
	}
	for i, w := range l.waiting {
		if w.number != k.Number {
			continue
		}
		if i == 0 && l.queued {
			s.order.remove(l.owner, k)
			l.queued = false
		}
		l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
		s.waiting--
		s.place(k.Session)
		return true
	}
	return false
}

// start adds a command that runs.
func (s *state) start(c store.Live) {
	s.running++
	s.perUser[c.Owner]++
	l := s.line(c)
	l.running, l.leased = true, true
}

// finish removes a command that runs.
func (s *state) finish(c store.Live) {
	s.running--
	if s.perUser[c.Owner]--; s.perUser[c.Owner] == 0 {
		delete(s.perUser, c.Owner)
	}
	s.lines[c.Session].running = false
	s.place(c.Session)
}

// forget removes a session without a command, and reports whether it is to be closed.
func (s *state) forget(session string) (closing bool) {
	l := s.lines[session]
	if l == nil || l.running || len(l.waiting) > 0 {
		return false
	}
	delete(s.lines, session)
	return l.closing
}

// leased counts the sessions that keep their workspaces, as they have further commands. Those of idle sessions can be
// taken from them.
func (s *state) leased() (n int) {
	for _, l := range s.lines {
		if l.leased {
			n++
		}
	}
	return n
}

// waitingOf is how many commands of a user wait.
func (s *state) waitingOf(user uint32) (n int) {
	for _, l := range s.lines {
		if l.owner == user {
			n += len(l.waiting)
		}
	}
	return n
}
