package appserver

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
	"time"

	"codex-proxy/codex/rpc"
)

const (
	// joinAbove is how many entries wait when successive texts of one item are joined. Each delta alone is a JSON
	// object, ten times as large as its text.
	joinAbove = 64
	// maxJoined bounds a joined text, in bytes.
	maxJoined = 16 << 10
)

// entry is a notification in the mailbox, or text of an item.
type entry struct {
	Notification
	item string
	text []byte // not nil if the entry is text
}

func (e entry) size() int { return len(e.Params) + len(e.text) }

// mailbox holds the notifications of one thread until the consumer of its turn takes them. It is part of state: use it
// only inside Conn.update.
type mailbox struct {
	turn      *Turn
	turnID    string
	queue     []entry
	popped    int                       // of the queue
	bytes     int                       // of the entries in the queue
	lastItem  string                    // the item of the last text
	delivered map[string]*deliveredText // by item
	end       error                     // why it accepts no more entries
	started   bool                      // turn/started has arrived
	completed bool                      // turn/completed has arrived
	closed    bool                      // the turn has been closed
	tools     bool                      // the client has tools: calls of them stay open
	openCalls []json.RawMessage         // ids of the requests item/tool/call
	received  time.Time                 // when the last notification arrived
	onStart   func()                    // runs at turn/started, or at turn/completed if that never arrived
	ready     chan struct{}             // capacity 1: something has changed
	idleSince atomic.Int64              // since when the consumer has taken none of the waiting entries, in ticks
}

func newMailbox(turn *Turn) *mailbox { return &mailbox{ready: make(chan struct{}, 1), turn: turn} }

// put adds a copy of a notification. It returns false when this notification exceeds the limits, and the turn has to
// be interrupted. A notification alone in the queue may have any size.
func (m *mailbox) put(n *rpc.Message, turnID []byte, o Options) bool {
	if m.foreign(n.Method, turnID) {
		return true
	}
	m.received = n.At
	switch n.Method {
	case "turn/started":
		m.turnID, m.started = string(turnID), true
		return true
	case "turn/completed":
		m.completed = true
	case "error": // codex may restart the response; if any text of it was delivered, the turn fails
		clear(m.delivered)
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
		if !m.finishMessage(item, text) {
			return true
		}
	} else {
		m.add(entry{Notification: Notification{Method: n.Method, Params: bytes.Clone(n.Params)}})
	}
	m.signal()
	return true
}

// finishMessage adds the text of a message that was not sent as deltas, if any.
func (m *mailbox) finishMessage(item, text []byte) (added bool) {
	rest, ok := text, true
	if d := m.delivered[string(item)]; d != nil {
		rest, ok = d.cutFrom(text)
	}
	if added = ok && len(rest) > 0; added {
		m.addText(item, rest)
	}
	delete(m.delivered, string(item))
	return added
}

func (m *mailbox) addText(item, text []byte) {
	m.recordDelivered(item, text)
	if m.waiting() > joinAbove {
		last := &m.queue[len(m.queue)-1]
		if last.text != nil && last.item == string(item) && len(last.text) < maxJoined {
			last.text = append(last.text, text...)
			m.grow(len(text))
			return
		}
	}
	if m.lastItem != string(item) {
		m.lastItem = string(item)
	}
	m.add(entry{item: m.lastItem, text: append(make([]byte, 0, len(text)), text...)})
}

func (m *mailbox) recordDelivered(item, text []byte) {
	d := m.delivered[string(item)]
	if d == nil {
		if m.delivered == nil {
			m.delivered = map[string]*deliveredText{}
		}
		d = newDeliveredText()
		m.delivered[string(item)] = d
	}
	d.add(text)
}

func (m *mailbox) add(e entry) {
	if m.waiting() == 0 {
		m.idleSince.Store(ticks(m.received))
	}
	if m.popped > 0 && len(m.queue) == cap(m.queue) {
		rest := copy(m.queue, m.queue[m.popped:])
		clear(m.queue[rest:])
		m.queue, m.popped = m.queue[:rest], 0
	}
	m.queue = append(m.queue, e)
	m.grow(e.size())
}

func (m *mailbox) grow(by int) {
	m.turn.conn.opts.Backlog.changed(m.turn, m.bytes, m.bytes+by)
	m.bytes += by
}

// afterStart makes f run at turn/started, after the functions that already wait for it.
func (m *mailbox) afterStart(f func()) {
	before := m.onStart
	m.onStart = func() {
		if before != nil {
			before()
		}
		f()
	}
}

// dueAt removes and returns the function that waits for such a notification, if there is one.
func (m *mailbox) dueAt(method string) (f func()) {
	if method == "turn/started" || method == "turn/completed" {
		f, m.onStart = m.onStart, nil
	}
	return f
}

// shut empties the queue and refuses further entries. Only the first reason counts.
func (m *mailbox) shut(end error) {
	if m.end == nil {
		m.end = end
	}
	m.clear()
	m.signal()
}

// clear empties the queue.
func (m *mailbox) clear() {
	m.queue, m.popped = nil, 0
	m.grow(-m.bytes)
}

// foreign reports notifications of the thread that belong to another turn: codex 0.169 echoes every injected item as
// rawResponseItem/completed of a turn "auto-compact-0", which for a long history is as large as the history.
func (m *mailbox) foreign(method string, turnID []byte) bool {
	if m.turnID == "" {
		return method == "rawResponseItem/completed"
	}
	return len(turnID) > 0 && string(turnID) != m.turnID
}

// pop removes the oldest entry. Without one, err is the reason if there will be none, and nil if there may be.
func (m *mailbox) pop() (e entry, ok bool, err error) {
	if m.waiting() == 0 {
		return e, false, m.end
	}
	e, m.queue[m.popped] = m.queue[m.popped], entry{}
	if m.popped++; m.popped == len(m.queue) { // from the beginning of the same array
		m.queue, m.popped = m.queue[:0], 0
	} else {
		m.idleSince.Store(ticks(time.Now()))
	}
	m.grow(-e.size())
	return e, true, nil
}

func (m *mailbox) waiting() int { return len(m.queue) - m.popped }

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}
