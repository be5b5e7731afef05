package rpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/coder/websocket"

	"codex-proxy/internal/direct"
)

// maxMessage is the largest message that codex accepts, in fragments, and the largest that is accepted from it.
const maxMessage = 64 << 20

// Conn is one connection to a codex app-server. All methods may be called from any goroutine; Run exactly once.
type Conn struct {
	*calls
	writer *writer
	ws     *websocket.Conn
	opts   Options

	received atomic.Int64 // when the last message arrived, in ticks
	handling atomic.Int64 // since when Run handles a message, in ticks; 0 while it waits for one
}

// Dial connects to the unix socket at socketPath and upgrades to WebSocket. It sends nothing else and starts no
// goroutine: the caller runs Run.
func Dial(ctx context.Context, socketPath string, o Options) (*Conn, error) {
	out := &writeBuffer{}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socketPath)
		if err != nil {
			return nil, err
		}
		out.Conn = direct.Conn(conn)
		out.in = bufio.NewReaderSize(out.Conn, readSize)
		return out, nil
	}}
	ws, _, err := websocket.Dial(ctx, "ws://codex/", &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient:      &http.Client{Transport: transport},
		HTTPHeader:      o.Header,
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("cannot connect to codex app-server at %s: %w", socketPath, err)
	}
	ws.SetReadLimit(maxMessage)
	return newConn(ws, out, o.withDefaults()), nil
}

func newConn(ws *websocket.Conn, out *writeBuffer, o Options) *Conn {
	calls := &calls{done: make(chan struct{}), state: state{pending: map[int64]*pending{}}}
	return &Conn{calls: calls, ws: ws, opts: o, writer: &writer{calls: calls, ws: ws, out: out, timeout: o.WriteTimeout,
		bulk: make(chan [][]byte), wake: make(chan struct{}, 1)}}
}

// Run reads until the connection closes and returns the cause, or nil when the cause is ctx. Without Run nothing is
// sent or received.
func (c *Conn) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.Close(context.Cause(ctx)) })
	defer stop()
	written := make(chan struct{})
	go func() { defer close(written); c.writer.run(c.Close) }()
	c.Close(c.read())
	<-written
	if ctx.Err() != nil {
		return nil
	}
	return c.Err()
}

// Close ends the connection. Every waiting caller gets cause, or ErrClosed when it is nil; only the first cause
// counts.
func (c *Conn) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	first := false
	var late []func(Reply)
	c.update(func(s *state) {
		if first = s.err == nil; first {
			s.err = cause
			close(c.done)
			late = s.takeDetached()
		}
	})
	if !first {
		return
	}
	_ = c.ws.CloseNow()
	for _, f := range late {
		f(Reply{closed: cause})
	}
	c.opts.OnClose()
}
