package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"codex-proxy/notify"
)

// Predecessor is the process that this one replaces. A process that the service manager
// started has none: each method of the nil Predecessor does nothing and waits for nothing.
type Predecessor struct {
	notifier *notify.Notifier
	peer     *peer
	sockets  notify.Sockets
	state    json.RawMessage // of hello; nil: codex-proxy 0.1.0 sends none
}

// FromPredecessor takes over the hand-off for which this process was started. It returns nil if the process was not
// started for one.
func FromPredecessor() (*Predecessor, error) {
	handed := os.Getenv(variable)
	if err := os.Unsetenv(variable); err != nil || handed == "" {
		return nil, err
	}
	p, err := newPeer(os.NewFile(descriptor, "handoff"), slog.New(slog.DiscardHandler))
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

// Sockets returns the sockets on which the predecessor listens, as notify.Inherited does.
func (p *Predecessor) Sockets() notify.Sockets {
	if p == nil {
		return nil
	}
	return p.sockets
}

// State decodes Settings.State of the predecessor. It reports false if there is no
// predecessor, or if the predecessor sends no state (codex-proxy 0.1.0).
func (p *Predecessor) State(state any) (ok bool, err error) {
	if p == nil || p.state == nil {
		return false, nil
	}
	return true, json.Unmarshal(p.state, state)
}

// Attach silences n until Ready has returned: until then the service manager accepts no
// message of this process (NotifyAccess=main). Messages of an unknown kind go to logger.
func (p *Predecessor) Attach(n *notify.Notifier, logger *slog.Logger) {
	if p != nil {
		p.notifier, p.peer.logger = n, logger
		n.Silence(true)
	}
}

// Failed reports why this process cannot take over.
func (p *Predecessor) Failed(err error) {
	if p != nil {
		_ = p.peer.send(packet{Kind: failed, Text: err.Error()})
	}
}

// Ready offers to serve and waits until this process is the unit's main one. It decodes
// the state that the predecessor passed to Take. After an error this process must end.
func (p *Predecessor) Ready(serving bool, status string, state any) error {
	if p == nil {
		return nil
	}
	if err := p.peer.send(packet{Kind: ready, Serving: serving, Text: status}); err != nil {
		return fmt.Errorf("cannot take over: %w", err)
	}
	if err := p.peer.conn.SetReadDeadline(time.Now().Add(takeBound)); err != nil {
		return err
	}
	m, err := p.peer.await(take)
	if err != nil {
		return fmt.Errorf("cannot take over: %w", err)
	}
	p.notifier.Silence(false)
	return json.Unmarshal(m.State, state)
}

// Taken reports that this process serves.
func (p *Predecessor) Taken() { p.Send(taken, nil) }

// Send sends a message to a predecessor that still finishes its work. A nil body is not sent.
func (p *Predecessor) Send(kind Kind, body any) {
	if p != nil {
		p.peer.sendBody(kind, body)
	}
}

// Wait calls handle with each message of the predecessor, on its own goroutine, and
// returns nil when the predecessor has ended; by then its own predecessors have ended,
// too. handle reports whether it knows the kind.
func (p *Predecessor) Wait(ctx context.Context, handle func(Message) (known bool)) error {
	if p == nil {
		return nil
	}
	if err := p.peer.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	p.peer.follow(ctx, newsOfPredecessor, handle)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_ = p.peer.conn.Close() // later messages to the predecessor are dropped
	return nil
}
