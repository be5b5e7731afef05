package appserver

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
	"time"

	"codex-proxy/proxy/appserver/rpc"
)

// behind is how many notifications wait when the consumer counts as behind: then
// pieces of text that come one after another are joined. Alone each is a JSON
// object, ten times as large as its text.
const behind = 64

// maxJoined bounds what is joined into one.
const maxJoined = 16 << 10

// mail is a notification in the mailbox, or text of an item.
type mail struct {
	Notification
	item string
	text []byte // not nil: it is text
}

// mailbox holds the notifications of one thread until its turn's consumer takes
// them. It is part of state: touch it only inside the door.
type mailbox struct {
	turnID    string
	queue     []mail
	taken     int                // of the queue
	item      string             // that text last came of
	spoken    map[string]*spoken // by the item
	bytes     int
	end       error             // why no more is taken in
	started   bool              // turn/started has arrived
	completed bool              // turn/completed has arrived
	left      bool              // the turn has been closed
	tools     bool              // the client has tools: calls of them stay open
	open      []json.RawMessage // ids of those calls
	heard     time.Time         // when something last came
	onStart   func()            // what waits for turn/started, or for turn/completed if that never came
	ready     chan struct{}     // capacity 1: something has changed
	turn      *Turn             // whose it is
	still     atomic.Int64      // since when the consumer has taken nothing of what waits, in ticks
}

func newMailbox(turn *Turn) *mailbox { return &mailbox{ready: make(chan struct{}, 1), turn: turn} }

// put adds a notification; false means that this very message was one too many,
// and the turn is to be interrupted. A message alone in the queue may be of any
// size. What is kept of n is a copy.
func (m *mailbox) put(n *rpc.Message, turnID []byte, o Options) bool {
	if m.foreign(n.Method, turnID) {
		return true
	}
	m.heard = n.At
	switch n.Method {
	case "turn/started":
		m.turnID, m.started = string(turnID), true
		return true
	case "turn/completed":
		m.completed = true
	case "error": // codex may begin the response anew; if any of it was passed on, the turn fails
		clear(m.spoken)
	}
	if m.end != nil {
		return true
	}
	if m.waiting() >= o.QueueEvents || m.waiting() > 0 && m.bytes+len(n.Params) > o.QueueBytes {
		m.shut(ErrSlowConsumer)
		return m.completed
	}
	if item, text, ok := deltaOf(n); ok {
		m.addText(item, text)
	} else if item, text, ok := messageOf(n); ok {
		if !m.finish(item, text) {
			return true
		}
	} else {
		m.add(mail{Notification: Notification{Method: n.Method, Params: bytes.Clone(n.Params)}})
	}
	m.signal()
	return true
}

// finish adds what of a message has not come as deltas, if anything. All of it would
// come twice otherwise, and wait as long.
func (m *mailbox) finish(item, text []byte) (added bool) {
	rest, ok := text, true
	if spoken := m.spoken[string(item)]; spoken != nil {
		rest, ok = spoken.cutFrom(text)
	}
	if added = ok && len(rest) > 0; added {
		m.addText(item, rest)
	}
	delete(m.spoken, string(item))
	return added
}

func (m *mailbox) addText(item, text []byte) {
	m.speak(item, text)
	if m.waiting() > behind {
		if last := &m.queue[len(m.queue)-1]; last.text != nil && last.item == string(item) && len(last.text) < maxJoined {
			last.text = append(last.text, text...)
			m.grow(len(text))
			return
		}
	}
	if m.item != string(item) {
		m.item = string(item)
	}
	m.add(mail{item: m.item, text: append(make([]byte, 0, len(text)), text...)})
}

// speak notes text that is passed on.
func (m *mailbox) speak(item, text []byte) {
	s := m.spoken[string(item)]
	if s == nil {
		if m.spoken == nil {
			m.spoken = map[string]*spoken{}
		}
		s = newSpoken()
		m.spoken[string(item)] = s
	}
	s.add(text)
}

func (m *mailbox) add(one mail) {
	if m.waiting() == 0 {
		m.still.Store(ticks(m.heard))
	}
	if m.taken > 0 && len(m.queue) == cap(m.queue) {
		rest := copy(m.queue, m.queue[m.taken:])
		clear(m.queue[rest:])
		m.queue, m.taken = m.queue[:rest], 0
	}
	m.queue = append(m.queue, one)
	m.grow(one.size())
}

func (m *mailbox) grow(by int) {
	m.turn.conn.opts.Backlog.changed(m.turn, m.bytes, m.bytes+by)
	m.bytes += by
}

func (m mail) size() int { return len(m.Params) + len(m.text) }

// after sets what is to be done at turn/started, behind what already waits.
func (m *mailbox) after(f func()) {
	before := m.onStart
	m.onStart = func() {
		if before != nil {
			before()
		}
		f()
	}
}

// due takes what waits for such a notification, if it was waited for.
func (m *mailbox) due(method string) (f func()) {
	if method == "turn/started" || method == "turn/completed" {
		f, m.onStart = m.onStart, nil
	}
	return f
}

// shut drops what is queued and refuses more. The first reason stands.
func (m *mailbox) shut(end error) {
	if m.end == nil {
		m.end = end
	}
	m.drop()
	m.signal()
}

// drop throws away what is queued.
func (m *mailbox) drop() {
	m.queue, m.taken = nil, 0
	m.grow(-m.bytes)
}

// foreign reports notifications of the thread that are not of our turn: codex
// 0.169 echoes every injected item as rawResponseItem/completed of a turn
// "auto-compact-0", which for a long history is as big as the history.
func (m *mailbox) foreign(method string, turnID []byte) bool {
	if m.turnID == "" {
		return method == "rawResponseItem/completed"
	}
	return len(turnID) > 0 && string(turnID) != m.turnID
}

// take removes the oldest notification. Without one, err says why there will be
// none, or is nil when there may be.
func (m *mailbox) take() (n mail, ok bool, err error) {
	if m.waiting() == 0 {
		return n, false, m.end
	}
	n, m.queue[m.taken] = m.queue[m.taken], mail{}
	if m.taken++; m.taken == len(m.queue) { // from the beginning of the same array
		m.queue, m.taken = m.queue[:0], 0
	} else {
		m.still.Store(ticks(time.Now()))
	}
	m.grow(-n.size())
	return n, true, nil
}

func (m *mailbox) waiting() int { return len(m.queue) - m.taken }

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}
