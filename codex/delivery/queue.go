// Package delivery delivers the notifications of codex to the turns of a connection: it finds the turn of each, and
// queues them within bounds until the turn's consumer takes them.
package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"codex-proxy/codex/rpc"
)

// ErrSlowConsumer ends a queue if its consumer is too slow.
var ErrSlowConsumer = errors.New("turn cancelled: its events were not read fast enough")

const (
	// joinAbove is how many entries wait when successive texts of one item are joined. Each delta alone is a JSON
	// object, ten times as large as its text.
	joinAbove = 64
	// maxJoined bounds a joined text, in bytes.
	maxJoined = 16 << 10
)

// Entry is a notification in a queue, or text of an item.
type Entry struct {
	Method string
	Params json.RawMessage
	Item   string
	Text   []byte // not nil if the entry is text
}

func (e Entry) size() int { return len(e.Params) + len(e.Text) }

// Turn is the turn of a queue.
type Turn interface {
	// EndSlow ends the turn, as its consumer takes nothing from the queue.
	EndSlow()
}

// Bounds are the bounds of a queue.
type Bounds struct {
	Events, Bytes int
	Backlog       *Backlog // of all queues that share it; nil sets no bound
}

// Queue holds the notifications of one turn until its consumer takes them. The owner's lock guards it.
type Queue struct {
	turn      Turn
	bounds    Bounds
	entries   []Entry
	popped    int                       // of the entries
	bytes     int                       // of the other entries
	lastItem  string                    // the item of the last text
	delivered map[string]*deliveredText // by item
	end       error                     // why it accepts no more entries
	changed   chan struct{}             // capacity 1: something has changed
	idleSince atomic.Int64              // since when the consumer has taken none of the waiting entries, in ticks
}

// NewQueue makes the queue of a turn.
func NewQueue(turn Turn, b Bounds) *Queue {
	return &Queue{turn: turn, bounds: b, changed: make(chan struct{}, 1)}
}

// Changed receives after a change of the queue. It needs no lock.
func (q *Queue) Changed() <-chan struct{} { return q.changed }

// End is why the queue accepts no more entries; nil if it does.
func (q *Queue) End() error { return q.end }

// Put adds a copy of a notification. It returns false when this notification exceeds the bounds, which ends the queue.
// A notification alone in the queue may have any size.
func (q *Queue) Put(n *rpc.Message) bool {
	if n.Method == "error" { // codex may restart the response; if any text of it was delivered, the turn fails
		clear(q.delivered)
	}
	if q.end != nil {
		return true
	}
	if q.waiting() >= q.bounds.Events || q.waiting() > 0 && q.bytes+len(n.Params) > q.bounds.Bytes {
		q.Shut(ErrSlowConsumer)
		return false
	}
	if q.waiting() == 0 {
		q.idleSince.Store(ticks(n.At))
	}
	if item, text, ok := deltaOf(n); ok {
		q.addText(item, text)
	} else if item, text, ok := messageOf(n); ok {
		if !q.finishMessage(item, text) {
			return true
		}
	} else {
		q.add(Entry{Method: n.Method, Params: bytes.Clone(n.Params)})
	}
	q.Signal()
	return true
}

// finishMessage adds the text of a message that was not sent as deltas, if any.
func (q *Queue) finishMessage(item, text []byte) (added bool) {
	rest, ok := text, true
	if d := q.delivered[string(item)]; d != nil {
		rest, ok = d.cutFrom(text)
	}
	if added = ok && len(rest) > 0; added {
		q.addText(item, rest)
	}
	delete(q.delivered, string(item))
	return added
}

func (q *Queue) addText(item, text []byte) {
	q.recordDelivered(item, text)
	if q.waiting() > joinAbove {
		last := &q.entries[len(q.entries)-1]
		if last.Text != nil && last.Item == string(item) && len(last.Text) < maxJoined {
			last.Text = append(last.Text, text...)
			q.grow(len(text))
			return
		}
	}
	if q.lastItem != string(item) {
		q.lastItem = string(item)
	}
	q.add(Entry{Item: q.lastItem, Text: append(make([]byte, 0, len(text)), text...)})
}

func (q *Queue) recordDelivered(item, text []byte) {
	d := q.delivered[string(item)]
	if d == nil {
		if q.delivered == nil {
			q.delivered = map[string]*deliveredText{}
		}
		d = newDeliveredText()
		q.delivered[string(item)] = d
	}
	d.add(text)
}

func (q *Queue) add(e Entry) {
	if q.popped > 0 && len(q.entries) == cap(q.entries) {
		rest := copy(q.entries, q.entries[q.popped:])
		clear(q.entries[rest:])
		q.entries, q.popped = q.entries[:rest], 0
	}
	q.entries = append(q.entries, e)
	q.grow(e.size())
}

func (q *Queue) grow(by int) {
	q.bounds.Backlog.changed(q, q.bytes, q.bytes+by)
	q.bytes += by
}

// Shut empties the queue and refuses further entries. Only the first reason counts.
func (q *Queue) Shut(end error) {
	if q.end == nil {
		q.end = end
	}
	q.Clear()
	q.Signal()
}

// Clear empties the queue.
func (q *Queue) Clear() {
	q.entries, q.popped = nil, 0
	q.grow(-q.bytes)
}

// Pop removes the oldest entry. Without one, err is the reason if there will be none, and nil if there may be.
func (q *Queue) Pop() (e Entry, ok bool, err error) {
	if q.waiting() == 0 {
		return e, false, q.end
	}
	e, q.entries[q.popped] = q.entries[q.popped], Entry{}
	if q.popped++; q.popped == len(q.entries) { // from the beginning of the same array
		q.entries, q.popped = q.entries[:0], 0
	} else {
		q.idleSince.Store(ticks(time.Now()))
	}
	q.grow(-e.size())
	return e, true, nil
}

// Crowded reports whether much of the bytes that may wait does.
func (q *Queue) Crowded() bool { return q.bytes > q.bounds.Bytes/4 }

func (q *Queue) waiting() int { return len(q.entries) - q.popped }

// Signal wakes the consumer.
func (q *Queue) Signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}
