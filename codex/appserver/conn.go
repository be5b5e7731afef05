package appserver

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"sync"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// Conn is one connection to a codex app-server, with its threads. All methods may be called from any goroutine; Run
// exactly once.
type Conn struct {
	*rpc.Conn
	opts   Options
	starts chan struct{} // has a token for each thread that codex starts for a turn
	adding environments

	mu    sync.Mutex
	state state
}

// state is everything of the threads of a connection that changes. Invariant: threads has an entry from the reply to
// thread/start until the turn is known to have ended and thread/unsubscribe is sent.
type state struct {
	threads  map[string]*mailbox
	prestart prestart
	unmarked bool // codex does not report the ends of responses
	closed   bool // the connection has closed: no turn/started will arrive
}

// Notification is a message of codex without a reply.
type Notification struct {
	Method string
	Params json.RawMessage
}

// Dial connects to the unix socket at socketPath and upgrades to WebSocket. It sends nothing else and starts no
// goroutine: call Run, then Initialize.
func Dial(ctx context.Context, socketPath string, o Options) (*Conn, error) {
	c := newConn(o)
	conn, err := rpc.Dial(ctx, socketPath, rpc.Options{
		Logger:         c.opts.Logger,
		WriteTimeout:   c.opts.WriteTimeout,
		Fields:         delivery.Fields,
		OnRequest:      c.answer,
		OnNotification: c.route,
		OnClose:        c.runStartWaiters,
	})
	if err != nil {
		return nil, err
	}
	c.Conn = conn
	return c, nil
}

func newConn(o Options) *Conn {
	return &Conn{opts: o.withDefaults(), starts: make(chan struct{}, runtime.NumCPU()),
		adding: environments{turn: make(chan struct{}, 1), known: map[string]string{}},
		state:  state{threads: map[string]*mailbox{}}}
}

// update runs f, which must not block, with the state locked.
func (c *Conn) update(f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

// runStartWaiters runs the functions that wait for a turn/started that will not arrive.
func (c *Conn) runStartWaiters() {
	var waiting []func()
	c.update(func(s *state) {
		s.closed = true
		for _, box := range s.threads {
			if box.onStart != nil {
				waiting = append(waiting, box.onStart)
				box.onStart = nil
			}
		}
	})
	for _, f := range waiting {
		f()
	}
}

// route delivers a notification to its thread, or to OnNotification.
func (c *Conn) route(m rpc.Message) {
	to, err := delivery.AddressOf(&m)
	switch {
	case err != nil:
		c.opts.Logger.Warn("codex app-server sent a notification that does not parse", "method", m.Method, "error", err)
	case len(to.ThreadID) > 0:
		c.deliver(&m, to)
	case c.opts.OnNotification != nil:
		c.opts.OnNotification(Notification{Method: m.Method, Params: bytes.Clone(m.Params)})
	}
}

// deliver never waits for the consumer: a turn that cannot keep up is ended.
func (c *Conn) deliver(m *rpc.Message, to delivery.Address) {
	var due []func()
	overflown, crowded, turnID := false, false, ""
	c.update(func(s *state) {
		if box := s.threads[string(to.ThreadID)]; box != nil {
			overflown = !box.put(m, to.TurnID)
			turnID, due = box.turnID, box.dueAt(m.Method)
			crowded = box.queue.Crowded()
		}
	})
	for _, f := range due {
		f()
	}
	if crowded {
		runtime.Gosched() // a consumer that is not held up by its client catches up
	}
	if overflown {
		c.interruptSlow(string(to.ThreadID), turnID)
	}
	c.opts.Backlog.Relieve()
}

func (c *Conn) interruptSlow(threadID, turnID string) {
	c.opts.Logger.Warn("turn cancelled: its consumer is too slow", "thread_id", threadID)
	rpc.PostWhileOverloaded(c.Conn, "turn/interrupt", wire.TurnInterrupt{ThreadID: threadID, TurnID: turnID}, nil)
}
