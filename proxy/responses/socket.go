package responses

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/jobs"
	"codex-proxy/proxy/responses/wsframe"
	"codex-proxy/proxy/turn"
)

const (
	// maxWaiting bounds the requests on a connection that wait for the one in flight;
	// BodyLimit bounds their bytes.
	maxWaiting = 4
	// socketIdle is how long a connection may be without a response.
	socketIdle = time.Hour
	// pongTimeout bounds the wait for the answer to a ping.
	pongTimeout = 30 * time.Second
)

// socket is a WebSocket of responses, one after another. The fields without a note belong
// to the handler's goroutine. Source: OpenAI API guide, "WebSocket mode".
type socket struct {
	*Endpoint
	conn *websocket.Conn
	wire *wsframe.Conn   // of conn
	r    *http.Request   // of the upgrade
	x    *proxy.Exchange // of the upgrade

	waiting chan message // requests: the reader sends them to the handler
	bytes   atomic.Int64 // of the requests that wait
	edges   atomic.Int64 // beginnings and ends of messages so far: odd while one arrives
	sending atomic.Int64 // messages that are being sent

	last *jobs.Remembered
	held limits.Held // memory of last
}

// message is a message of a client, and the memory that it is charged for.
type message struct {
	body []byte
	held limits.Held
}

// upgrade serves GET /v1/responses, which is a WebSocket.
func (e *Endpoint) upgrade(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	if !proxy.AsksForWebSocket(r) {
		return &openai.Error{
			Status: http.StatusUpgradeRequired, Type: openai.TypeInvalidRequest, Code: "upgrade_required",
			Message: "GET /v1/responses is a WebSocket; POST a request instead, or GET /v1/responses/{id}",
			Header:  http.Header{"Upgrade": {"websocket"}},
		}
	}
	closed, err := e.Server.Connections.OpenSocket(x.Key.Name)
	if err != nil {
		return err
	}
	defer closed()
	handshake := &handshake{ResponseWriter: w, wire: &wsframe.Conn{Timeout: e.WriteTimeout}}
	// it requires that a page's Origin is this host
	conn, err := websocket.Accept(handshake, r, &websocket.AcceptOptions{
		OnPingReceived: func(_ context.Context, payload []byte) (answer bool) {
			handshake.wire.Ping(payload)
			return false
		},
	})
	if err != nil {
		return &openai.Error{
			Status: handshake.status, Type: openai.TypeInvalidRequest, Code: "bad_upgrade", Message: err.Error(),
		}
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed by then, or of no use
	x.Status = http.StatusSwitchingProtocols
	conn.SetReadLimit(e.Admission.BodyLimit)
	s := &socket{
		Endpoint: e, conn: conn, wire: handshake.wire, r: r, x: x, waiting: make(chan message, maxWaiting),
		held: e.SocketMemory.Hold(x.Key.Name),
	}
	s.serve()
	return nil
}

// handshake drops the answer of the library to a handshake that it refuses: that answer
// has no envelope.
type handshake struct {
	http.ResponseWriter
	status int
	wire   *wsframe.Conn
}

// Hijack implements http.Hijacker: the library writes its frames through wire. The writer of the server would write
// them to the connection itself, where the bound of the last message still holds.
func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire.Conn = conn
	return h.wire, bufio.NewReadWriter(buffers.Reader, bufio.NewWriter(h.wire)), nil
}

// WriteHeader implements http.ResponseWriter.
func (h *handshake) WriteHeader(status int) {
	h.status = status
	if status == http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (h *handshake) Write(b []byte) (int, error) { return len(b), nil }

// serve serves requests until the client closes it, no request arrives for too long, or the server leaves its clients;
// then it finishes the response in flight.
func (s *socket) serve() {
	ctx, cancel := context.WithCancelCause(s.r.Context())
	var others sync.WaitGroup
	defer s.release()
	defer others.Wait()
	defer s.conn.CloseNow() //nolint:errcheck // it ends the reader
	defer cancel(nil)
	others.Go(func() { cancel(s.read(ctx)) })
	others.Go(func() { s.ping(ctx, cancel) })
	leaving := s.Server.Connections.Leaving()
	for {
		select { // before a request that waits
		case <-leaving:
			s.close("the service restarts")
			return
		default:
		}
		idle := time.NewTimer(socketIdle)
		select {
		case m := <-s.waiting:
			s.bytes.Add(-int64(len(m.body)))
			s.answer(ctx, m)
		case <-leaving:
		case <-idle.C:
			s.close("no response for too long")
			return
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), proxy.ErrDeadline) {
				s.close("the service stops")
			}
			return
		}
		idle.Stop()
	}
}

// release releases all memory, after the end of the reader.
func (s *socket) release() {
	for len(s.waiting) > 0 {
		m := <-s.waiting
		m.held.Release()
	}
	s.held.Release()
}

// close closes the connection with a reason. An error only means that the client did not
// confirm it.
func (s *socket) close(reason string) { _ = s.conn.Close(websocket.StatusGoingAway, reason) }

// ping keeps the connection open, and notices when its client is gone. A client that sends
// a message is there, and cannot answer in the middle of its only frame; the arrival of a
// message has a bound of its own. No ping passes a message that is being sent, either.
func (s *socket) ping(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(s.Keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		before := s.edges.Load()
		if before%2 == 1 || s.sending.Load() > 0 {
			continue
		}
		within, done := context.WithTimeout(context.WithoutCancel(ctx), pongTimeout)
		err := s.conn.Ping(within)
		done()
		if err != nil && s.edges.Load() == before && s.sending.Load() == 0 {
			cancel(turn.ErrClientGone)
			return
		}
	}
}
