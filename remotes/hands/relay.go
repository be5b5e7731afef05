package hands

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/internal/pulse"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
)

const (
	// patience is how long a connection waits for an exec-server that starts: codex gives a command up when its
	// environment has been away for 25 s.
	patience = 25 * time.Second
	// headBound bounds the time of the request for a WebSocket.
	headBound = 10 * time.Second
	// mostConnections bounds the connections of codex at the same time. It has one for all of its threads.
	mostConnections = 16
	// bufferSize is the most that the relay holds of a message of the exec-server.
	bufferSize = 64 << 10
)

// Relay connects codex, in a network of its own, with the exec-server.
type Relay struct {
	Hands *Hands
	Token string // that codex sends
}

// Serve serves codex until ctx ends.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	slots := make(chan struct{}, mostConnections)
	server := &http.Server{ReadHeaderTimeout: headBound, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				r.Connect(ctx, w, req)
			default:
				http.Error(w, "too many connections", http.StatusServiceUnavailable)
			}
		})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// Connect waits for the exec-server before it accepts the WebSocket, so that codex sees no hands without one.
func (r *Relay) Connect(ctx context.Context, w http.ResponseWriter, req *http.Request) {
	if !HasToken(req, r.Token) {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	server, err := r.Hands.Dial(ctx)
	if err != nil {
		r.Hands.Logger.Warn("hands do not answer", "error", err)
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.CloseNow() //nolint:errcheck // it has ended
	codex, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	defer codex.CloseNow() //nolint:errcheck // it has ended
	codex.SetReadLimit(-1) // messages are passed on in pieces
	server.SetReadLimit(-1)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var alive pulse.Pulse
	var elsewhere *farSession
	back := direction{to: codex, from: server, pulse: &alive, answers: true}
	var work sync.WaitGroup
	if r.Hands.Elsewhere != nil {
		elsewhere = &farSession{taken: r.Hands.took}
		back.observe = elsewhere.answered
		work.Go(func() { ping(ctx, &alive, server, end) })
	}
	there := direction{to: server, from: codex, pulse: &alive, observe: func(beginning []byte, whole bool) {
		r.Hands.observe(beginning, whole, elsewhere)
	}}
	work.Go(func() {
		defer end()
		_ = back.pass(ctx)
	})
	_ = there.pass(ctx)
	end()
	work.Wait()
}

// HasToken reports whether a request has the token.
func HasToken(req *http.Request, token string) bool {
	return subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) == 1
}

// direction is one of the two directions of a connection.
type direction struct {
	to, from *websocket.Conn
	observe  func(beginning []byte, whole bool) // gets the beginning of each message; nil: nothing does
	pulse    *pulse.Pulse                       // of the exec-server
	// answers: the messages are the exec-server's. While codex takes none, the pong behind it is unread.
	answers bool
}

// pass passes the messages on until it ends.
func (d direction) pass(ctx context.Context) error {
	size := bufferSize
	if d.observe != nil {
		size = observed
	}
	buffer := make([]byte, size)
	for {
		kind, message, err := d.from.Reader(ctx)
		if err != nil {
			return err
		}
		if d.answers {
			message = d.pulse.Reader(message)
		}
		n, err := io.ReadFull(message, buffer)
		whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !whole {
			return err
		}
		if d.observe != nil {
			d.observe(buffer[:n], whole)
		}
		if err := d.write(ctx, kind, buffer[:n], whole, message); err != nil {
			return err
		}
	}
}

// write writes a message after its beginning was read.
func (d direction) write(ctx context.Context, kind websocket.MessageType, beginning []byte, whole bool,
	rest io.Reader) error {
	if whole && (d.answers || len(beginning) <= pulse.Piece) {
		if d.answers {
			defer d.pulse.Hold()()
		}
		return d.to.Write(ctx, kind, beginning)
	}
	w, err := d.to.Writer(ctx, kind)
	if err != nil {
		return err
	}
	to := felt{w, d}
	if _, err := to.Write(beginning); err != nil {
		return err
	}
	if !whole {
		if _, err = io.CopyBuffer(to, struct{ io.Reader }{rest}, beginning[:cap(beginning)]); err != nil {
			return err
		}
	}
	return w.Close()
}

// felt writes pieces of a long message. A ping to the exec-server goes between them.
type felt struct {
	to io.Writer
	direction
}

// Write implements io.Writer.
func (f felt) Write(p []byte) (written int, err error) {
	if f.answers {
		defer f.pulse.Hold()()
		return f.to.Write(p)
	}
	for part := range slices.Chunk(p, pulse.Piece) {
		n, err := f.to.Write(part)
		written += n
		f.pulse.Hold()()
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Dial connects to the exec-server, and waits for one that starts.
func (h *Hands) Dial(ctx context.Context) (*websocket.Conn, error) {
	end := time.Now().Add(patience)
	for {
		conn, err := h.dial(ctx, time.Until(end))
		if err == nil || ctx.Err() != nil || time.Now().Add(firstPause).After(end) {
			return conn, err
		}
		wait(ctx, firstPause) // the exec-server has just ended, or the token is the one of its successor
	}
}

func (h *Hands) dial(ctx context.Context, bound time.Duration) (*websocket.Conn, error) {
	if h.Elsewhere != nil {
		return h.Elsewhere.dial(ctx)
	}
	h.mu.Lock()
	id, token := h.record.Session, h.token
	h.mu.Unlock()
	stream, err := h.Client.AwaitPort(ctx, id, client.ExecServerPort, bound)
	if err != nil {
		return nil, explained(err)
	}
	ctx, cancel := context.WithTimeout(ctx, headBound)
	defer cancel()
	dial := func(context.Context, string, string) (net.Conn, error) { return &streamConn{PortStream: stream}, nil }
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	//nolint:bodyclose // the library closes it
	conn, _, err := websocket.Dial(ctx, "ws://hands/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionDisabled,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		_ = stream.Close()
	}
	return conn, err
}

// streamConn is a stream as a connection. It has no deadlines: contexts bound its use.
type streamConn struct {
	*wire.PortStream

	writing sync.Mutex // net/http may still return from its write of the request when the WebSocket writes
}

// Write implements io.Writer.
func (c *streamConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.PortStream.Write(p)
}

func (*streamConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "codex-runner", Net: "unix"} }
func (*streamConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "hands", Net: "unix"} }
func (*streamConn) SetDeadline(time.Time) error      { return nil }
func (*streamConn) SetReadDeadline(time.Time) error  { return nil }
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }
