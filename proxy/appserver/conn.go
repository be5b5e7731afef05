package appserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/internal/direct"
	"codex-proxy/proxy/fault"
)

// maxMessage is the largest message codex accepts, in fragments, and the
// largest we accept from it.
const maxMessage = 64 << 20

// Conn is one connection to a codex app-server. All methods may be called from
// any goroutine; Run exactly once.
type Conn struct {
	ws   *websocket.Conn
	opts Options
	log  *slog.Logger
	done chan struct{}
	cork *cork
	bulk chan [][]byte // to the writer
	wake chan struct{} // tells the writer that state.control has grown
	door door

	heard    atomic.Int64 // when the last message came, in ticks
	handling atomic.Int64 // since when Run handles a message, in ticks; 0 while it waits for one
}

// Dial connects to the unix socket at socketPath and upgrades to WebSocket. It
// sends nothing else and starts no goroutine: call Run, then Initialize.
func Dial(ctx context.Context, socketPath string, o Options) (*Conn, error) {
	cork := &cork{}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socketPath)
		if err != nil {
			return nil, err
		}
		cork.Conn = direct.Conn(conn)
		cork.in = bufio.NewReaderSize(cork.Conn, readAtOnce)
		return cork, nil
	}}
	ws, _, err := websocket.Dial(ctx, "ws://codex/", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient:      &http.Client{Transport: transport},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("cannot connect to codex app-server at %s: %w", socketPath, err)
	}
	ws.SetReadLimit(maxMessage)
	return newConn(ws, cork, o.withDefaults()), nil
}

func newConn(ws *websocket.Conn, cork *cork, o Options) *Conn {
	return &Conn{
		ws:   ws,
		cork: cork,
		opts: o,
		log:  o.Logger,
		done: make(chan struct{}),
		bulk: make(chan [][]byte),
		wake: make(chan struct{}, 1),
		door: newDoor(),
	}
}

// Run reads until the connection closes and returns the cause, or nil when the
// cause is ctx. Nothing moves on a connection whose Run is not running.
func (c *Conn) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.Close(context.Cause(ctx)) })
	defer stop()
	written := make(chan struct{})
	go func() { defer close(written); c.write() }()
	c.Close(c.read())
	<-written
	if ctx.Err() != nil {
		return nil
	}
	return c.Err()
}

// Close ends the connection. Every waiter gets cause, or ErrClosed when it is
// nil; only the first cause counts.
func (c *Conn) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	first := false
	var late []func(incoming)
	c.door.enter(func(s *state) {
		if first = s.err == nil; first {
			s.err = cause
			close(c.done)
			late = s.unanswered()
		}
	})
	if first {
		_ = c.ws.CloseNow()
	}
	for _, f := range late {
		f(incoming{gone: cause})
	}
}

// Done is closed when the connection is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection is open, then the cause of its end.
func (c *Conn) Err() (err error) {
	c.door.enter(func(s *state) { err = s.err })
	return err
}

// read handles one message after another until one cannot be read or parsed.
func (c *Conn) read() error {
	var buffer bytes.Buffer
	for {
		b, err := c.next(&buffer)
		if err != nil {
			return lost("read", err)
		}
		m, err := parseIncoming(b)
		if err != nil {
			return lost("parse a message", err)
		}
		m.at = time.Now()
		c.heard.Store(ticks(m.at))
		c.handling.Store(ticks(m.at))
		fault.Point("reader")
		err = c.handle(m)
		c.handling.Store(0)
		if err != nil {
			return err
		}
	}
}

// keptBuffer is the largest buffer that is kept for the next message, by each
// connection. Most messages have a few hundred bytes; codex sends back what it is
// given of a history, and long answers.
const keptBuffer = 64 << 10

// next reads a message into the buffer of the last one.
func (c *Conn) next(buffer *bytes.Buffer) ([]byte, error) {
	_, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	if buffer.Cap() > keptBuffer {
		*buffer = bytes.Buffer{}
	}
	buffer.Reset()
	_, err = buffer.ReadFrom(r)
	return buffer.Bytes(), err
}

// Heard is when the last message of any kind came.
func (c *Conn) Heard() time.Time { return began.Add(time.Duration(c.heard.Load())) }

// Alive is an error when the reading loop has been at one message for longer
// than bound. Handling waits for nobody, so that is our own fault; a worker that
// sends nothing is not.
func (c *Conn) Alive(bound time.Duration) error {
	since := c.handling.Load()
	if since == 0 {
		return nil
	}
	if d := time.Duration(ticks(time.Now()) - since); d > bound {
		return fmt.Errorf("the reading loop has been at one message for %s", d.Round(time.Millisecond))
	}
	return nil
}

func (c *Conn) handle(m incoming) error {
	switch {
	case m.isRequest():
		return c.answer(m)
	case m.isReply():
		c.settle(m)
	case m.Method != "":
		c.route(m)
	default:
		c.log.Warn("codex app-server sent a message without id and method")
	}
	return nil
}

// route hands a notification to its thread, or to OnNotification.
func (c *Conn) route(m incoming) {
	to, err := m.address()
	switch {
	case err != nil:
		c.log.Warn("codex app-server sent a notification that does not parse", "method", m.Method, "error", err)
	case len(to.threadID) > 0:
		c.deliver(m, to)
	case c.opts.OnNotification != nil:
		c.opts.OnNotification(Notification{Method: m.Method, Params: bytes.Clone(m.Params)})
	}
}

// deliver never waits for the consumer: a turn that cannot keep up is ended.
func (c *Conn) deliver(m incoming, to address) {
	var due func()
	overflown, crowded, turnID := false, false, ""
	c.door.enter(func(s *state) {
		if box := s.threads[string(to.threadID)]; box != nil {
			overflown = !box.put(m, to.turnID, c.opts)
			turnID, due = box.turnID, box.due(m.Method)
			crowded = box.bytes > c.opts.QueueBytes/4
		}
	})
	if due != nil {
		due()
	}
	if crowded {
		runtime.Gosched() // a consumer that is not held up by its client catches up
	}
	if overflown {
		c.interruptSlow(string(to.threadID), turnID)
	}
	c.opts.Backlog.relieve()
}

func (c *Conn) interruptSlow(threadID, turnID string) {
	c.log.Warn("turn cancelled: its consumer is too slow", "thread_id", threadID)
	c.insist("turn/interrupt", turnInterruptParams{ThreadID: threadID, TurnID: turnID}, nil)
}
