package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Predecessor is the process whose place this one is to take. The nil
// Predecessor is that of a process started in the ordinary way: each of its
// methods does nothing, and nothing is waited for.
type Predecessor struct {
	notifier *Notifier
	peer     peer
	sockets  Sockets
	state    json.RawMessage // of the hello; nil: an older version says nothing there
}

// FromPredecessor takes over the hand-off that this process was started for; it
// returns nil if there is none.
func FromPredecessor() (*Predecessor, error) {
	handed := os.Getenv(handoffEnv)
	if err := os.Unsetenv(handoffEnv); err != nil || handed == "" {
		return nil, err
	}
	p, err := newPeer(os.NewFile(handoffFD, "handoff"))
	if err != nil {
		return nil, fmt.Errorf("cannot take over: %w", err)
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return nil, err
	}
	sockets, state, err := p.receiveSockets()
	if err != nil {
		return nil, fmt.Errorf("cannot take over the sockets: %w", err)
	}
	return &Predecessor{peer: p, sockets: sockets, state: state}, nil
}

// Sockets are those that the predecessor listens on, as Inherited returns them.
func (p *Predecessor) Sockets() Sockets {
	if p == nil {
		return nil
	}
	return p.sockets
}

// State reads what Succeed was given as its state. It reports false if there is no
// predecessor, or one of a version that says nothing there.
func (p *Predecessor) State(state any) (ok bool, err error) {
	if p == nil || p.state == nil {
		return false, nil
	}
	return true, json.Unmarshal(p.state, state)
}

// Hush keeps n silent until Ready has returned: before that the service manager
// does not listen to this process.
func (p *Predecessor) Hush(n *Notifier) {
	if p != nil {
		p.notifier = n
		n.hush(true)
	}
}

// Failed tells why this process cannot take over.
func (p *Predecessor) Failed(err error) {
	if p != nil {
		_ = p.peer.send(message{Kind: "failed", Text: err.Error()})
	}
}

// Ready offers to serve and waits until this process is the unit's main one,
// what the predecessor remembered being in state. An error means that it will
// not be, and that it is to end.
func (p *Predecessor) Ready(serving bool, status string, state any) error {
	if p == nil {
		return nil
	}
	if err := p.peer.send(message{Kind: "ready", Serving: serving, Text: status}); err != nil {
		return fmt.Errorf("cannot take over: %w", err)
	}
	if err := p.peer.conn.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return err
	}
	m, _, err := p.peer.receive()
	if err == nil && m.Kind != "take" {
		err = fmt.Errorf("the running process answered %q", m.Kind)
	}
	if err != nil {
		return fmt.Errorf("cannot take over: %w", err)
	}
	p.notifier.hush(false)
	return json.Unmarshal(m.State, state)
}

// Taken tells that this process serves.
func (p *Predecessor) Taken() { p.order("taken") }

// Drain tells a predecessor that still finishes its work that the unit stops.
func (p *Predecessor) Drain() { p.order("drain") }

// Hasten tells it to cut its work off.
func (p *Predecessor) Hasten() { p.order("hasten") }

// Tell passes on what a predecessor that still finishes its work must know.
func (p *Predecessor) Tell(news any) {
	if p != nil {
		p.peer.tell(news)
	}
}

func (p *Predecessor) order(kind string) {
	if p != nil {
		_ = p.peer.send(message{Kind: kind}) // it may have ended
	}
}

// Wait calls news with what the predecessor tells of itself, and returns nil when
// it has ended; then so have its own.
func (p *Predecessor) Wait(ctx context.Context, news func(json.RawMessage)) error {
	if p == nil {
		return nil
	}
	if err := p.peer.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.peer.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		m, _, err := p.peer.receive()
		if err != nil {
			break
		}
		if m.Kind == "news" {
			news(m.State)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = p.peer.conn.Close() // what is said to it from here on goes nowhere
	return nil
}
