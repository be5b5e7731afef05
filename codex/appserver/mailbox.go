package appserver

import (
	"encoding/json"
	"time"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
)

// mailbox is the part of a turn that the connection changes: its notifications and the facts in them. It is part of
// state: use it only inside Conn.update.
type mailbox struct {
	turn      *Turn
	turnID    string
	queue     *delivery.Queue
	started   bool              // turn/started has arrived
	completed bool              // turn/completed has arrived
	closed    bool              // the turn has been closed
	tools     bool              // the client has tools: calls of them stay open
	openCalls []json.RawMessage // ids of the requests item/tool/call
	received  time.Time         // when the last notification arrived
	onStart   func()            // runs at turn/started, or at turn/completed if that never arrived
	onEnd     func()            // runs at turn/completed
}

func newMailbox(turn *Turn) *mailbox {
	m, o := &mailbox{turn: turn}, &turn.conn.opts
	m.queue = delivery.NewQueue(m, delivery.Bounds{Events: o.QueueEvents, Bytes: o.QueueBytes, Backlog: o.Backlog})
	return m
}

// put takes a notification up. It returns false when the turn has to be interrupted, as its consumer is too slow.
func (m *mailbox) put(n *rpc.Message, turnID []byte) bool {
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
	}
	return m.queue.Put(n) || m.completed
}

// foreign reports notifications of the thread that belong to another turn: codex 0.169 echoes every injected item as
// rawResponseItem/completed of a turn "auto-compact-0", which for a long history is as large as the history.
func (m *mailbox) foreign(method string, turnID []byte) bool {
	if m.turnID == "" {
		return method == "rawResponseItem/completed"
	}
	return len(turnID) > 0 && string(turnID) != m.turnID
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

// dueAt removes and returns the functions that wait for such a notification.
func (m *mailbox) dueAt(method string) (all []func()) {
	if (method == "turn/started" || method == "turn/completed") && m.onStart != nil {
		all, m.onStart = append(all, m.onStart), nil
	}
	if method == "turn/completed" && m.onEnd != nil {
		all, m.onEnd = append(all, m.onEnd), nil
	}
	return all
}

// EndSlow ends a turn that is not read. It must not be called inside Conn.update.
func (m *mailbox) EndSlow() {
	ended, turnID := false, ""
	m.turn.conn.update(func(*state) {
		if ended = m.queue.End() == nil; ended {
			m.queue.Shut(delivery.ErrSlowConsumer)
			ended, turnID = !m.completed, m.turnID
		}
	})
	if ended {
		m.turn.conn.interruptSlow(m.turn.threadID, turnID)
	}
}
