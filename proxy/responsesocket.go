package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/proxy/openai"
)

const (
	// maxSockets bounds the connections, each of which remembers a conversation.
	maxSockets = 512
	// maxKeySockets leaves room for other keys when one holds as many as it can.
	maxKeySockets = maxSockets / 4
	// maxAhead bounds the requests on a connection that wait for the one in flight;
	// BodyLimit bounds their bytes.
	maxAhead = 4
	// smallMessage is what is read of a message without asking for memory, so that a
	// cancel gets through when there is none. Little enough to wait uncounted,
	// maxAhead times on every connection.
	smallMessage = 16 << 10
	// socketIdle is how long a connection may be without a response.
	socketIdle = time.Hour
	// pongTimeout bounds the wait for the answer to a ping.
	pongTimeout = 30 * time.Second
)

// responseSocket is one WebSocket of responses, one after another. The fields
// belong to the handler's goroutine; the reader has its own way to it, ahead.
// Source: OpenAI API guide, "WebSocket mode".
type responseSocket struct {
	*Server
	conn    *websocket.Conn
	w       http.ResponseWriter // of the upgrade: nothing can be written to it any more
	r       *http.Request
	key     string
	ahead   chan socketMessage // response.create
	waiting atomic.Int64       // bytes of them
	edges   atomic.Int64       // beginnings and ends of messages so far: odd while one arrives
	sending atomic.Int64       // messages that are being sent
	last    *remembered
	held    held // by last
}

// socketMessage is one of a WebSocket, and the memory that it holds.
type socketMessage struct {
	body []byte
	held held
}

// responsesSocket serves GET /v1/responses, which is a WebSocket.
func (s *Server) responsesSocket(w http.ResponseWriter, r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return &openai.Error{
			Status: http.StatusUpgradeRequired, Type: openai.TypeInvalidRequest, Code: "upgrade_required",
			Message: "GET /v1/responses is a WebSocket; POST a request instead, or GET /v1/responses/{id}", Header: http.Header{"Upgrade": {"websocket"}},
		}
	}
	x := exchangeOf(r)
	closed, err := s.exits.openSocket(x.key)
	if err != nil {
		return err
	}
	defer closed()
	handshake := &handshake{ResponseWriter: w}
	conn, err := websocket.Accept(handshake, r, nil) // it wants a page's Origin to be this host
	if err != nil {
		return &openai.Error{Status: handshake.status, Type: openai.TypeInvalidRequest, Code: "bad_upgrade", Message: err.Error()}
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed by then, or of no use
	x.status = http.StatusSwitchingProtocols
	conn.SetReadLimit(s.BodyLimit)
	k := &responseSocket{Server: s, conn: conn, w: w, r: r, key: x.key, ahead: make(chan socketMessage, maxAhead), held: s.remembered.hold(x.key)}
	k.run()
	return nil
}

// handshake keeps back what the library answers to a handshake that it refuses:
// that has no envelope.
type handshake struct {
	http.ResponseWriter
	status int
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

// Unwrap lets the library hijack the connection.
func (h *handshake) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// run serves until the client goes, nothing happens for too long, or the service
// leaves; then the response in flight comes to its end first.
func (k *responseSocket) run() {
	ctx, cancel := context.WithCancelCause(k.r.Context())
	var others sync.WaitGroup
	defer k.forget()
	defer others.Wait()
	defer k.conn.CloseNow() //nolint:errcheck // what ends the reader
	defer cancel(nil)
	others.Go(func() { cancel(k.read(ctx)) })
	others.Go(func() { k.ping(ctx, cancel) })
	for {
		select { // a message that is there comes after the wish to leave
		case <-k.exits.begun:
			k.bye("the service restarts")
			return
		default:
		}
		idle := time.NewTimer(socketIdle)
		select {
		case m := <-k.ahead:
			k.waiting.Add(-int64(len(m.body)))
			k.answer(ctx, m)
		case <-k.exits.begun:
		case <-idle.C:
			k.bye("no response for too long")
			return
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrDeadline) {
				k.bye("the service stops")
			}
			return
		}
		idle.Stop()
	}
}

// forget gives back all memory, when there is no reader any more.
func (k *responseSocket) forget() {
	for len(k.ahead) > 0 {
		m := <-k.ahead
		m.held.keep(0)
	}
	k.held.keep(0)
}

// bye closes the connection properly. That the client does not answer is no
// matter.
func (k *responseSocket) bye(why string) { _ = k.conn.Close(websocket.StatusGoingAway, why) }

// read takes messages until the connection ends. It never waits for anything else but
// memory, and for that not when the handler is done: it is what notices that the client
// goes.
func (k *responseSocket) read(handler context.Context) error {
	for {
		err := k.readMessage(handler)
		var known *openai.Error
		switch {
		case errors.As(err, &known):
			k.sendError(known)
		case err != nil:
			return err
		}
	}
}

// readMessage waits for a message as long as the connection is there; what has
// begun to come has to come within bodyTimeout, and what is large into memory. A
// small request waits for room in its turn, where that keeps nothing from being read.
func (k *responseSocket) readMessage(handler context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.r.Context())) // CloseNow ends it, after what has to be said
	defer cancel()
	kind, body, err := k.conn.Reader(ctx)
	switch {
	case err != nil:
		return errClientGone
	case kind != websocket.MessageText:
		_ = k.conn.Close(websocket.StatusUnsupportedData, "send text messages")
		return errClientGone
	}
	k.edges.Add(1)
	defer k.edges.Add(1)
	late := time.AfterFunc(bodyTimeout, cancel)
	defer late.Stop()
	m := socketMessage{held: k.memory.hold(k.key)}
	if m.body, err = io.ReadAll(io.LimitReader(body, smallMessage+1)); err != nil {
		return errClientGone
	}
	if len(m.body) <= smallMessage {
		m.held.try(expected(int64(len(m.body))))
	} else if err := k.readLarge(handler, &m, body, late); err != nil {
		return err
	}
	queued, err := k.take(m)
	if !queued {
		m.held.keep(0)
	}
	return err
}

// readLarge reads the rest of a message, for which it takes memory as it comes. What
// there is no room for is read nevertheless, as others follow it.
func (k *responseSocket) readLarge(handler context.Context, m *socketMessage, rest io.Reader, late *time.Timer) (err error) {
	m.body, err = readAll(io.MultiReader(bytes.NewReader(m.body), rest), k.BodyLimit, func(bytes int64) error {
		late.Stop() // the client is not to blame for the wait
		defer late.Reset(bodyTimeout)
		return m.held.reach(handler, bytes)
	})
	if err == nil {
		late.Stop()
		return m.weigh(handler)
	}
	m.held.keep(0)
	var refused *openai.Error
	if _, lost := io.Copy(io.Discard, rest); lost != nil || !errors.As(err, &refused) {
		return errClientGone
	}
	return err
}

// weigh takes the memory for what a large message makes when it is looked into.
func (m *socketMessage) weigh(ctx context.Context) error {
	bytes, _, err := weightOf(m.body)
	if err == nil {
		err = m.held.reach(ctx, bytes)
	}
	if err != nil {
		m.held.keep(0)
	}
	return err
}

func (k *responseSocket) take(m socketMessage) (queued bool, err error) {
	head, err := openai.DecodeMessage(m.body)
	if err != nil {
		return false, err
	}
	switch head.Type {
	case "response.create":
		return k.queue(m)
	case "response.cancel":
		if running := k.running.find(head.ResponseID, k.key); running != nil {
			running.cancel(errCancelled)
			return false, nil
		}
		return false, openai.Invalid("response_not_found", "response_id", "there is no such response in flight")
	case "response.processed": // codex tells that it has done with one
		return false, nil
	default:
		return false, openai.Invalid("invalid_value", "type", fmt.Sprintf("there is no message of type %q; send response.create", bounded(head.Type)))
	}
}

// queue has a request wait for those before it, of which there are not too many
// nor too large ones.
func (k *responseSocket) queue(m socketMessage) (queued bool, err error) {
	size := int64(len(m.body))
	if k.waiting.Add(size) > k.BodyLimit {
		k.waiting.Add(-size)
		return false, tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("the requests that wait on this connection would be larger than %d bytes (body_limit); use another one", k.BodyLimit), time.Second)
	}
	select {
	case k.ahead <- m:
		return true, nil
	default:
		k.waiting.Add(-size)
		return false, tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("%d requests wait on this connection already; use another one", maxAhead), time.Second)
	}
}

// ping keeps the line open, and finds out when nobody is at its other end. Who
// sends a message is there, and cannot answer in the middle of its only frame:
// how long that may take is bounded by itself. So it is with what is being sent, which
// no ping gets past.
func (k *responseSocket) ping(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(k.Keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		before := k.edges.Load()
		if before%2 == 1 || k.sending.Load() > 0 {
			continue
		}
		within, done := context.WithTimeout(context.WithoutCancel(ctx), pongTimeout)
		err := k.conn.Ping(within)
		done()
		if err != nil && k.edges.Load() == before && k.sending.Load() == 0 {
			cancel(errClientGone)
			return
		}
	}
}

// answer serves one message response.create, which is a request of its own in
// log and metrics.
func (k *responseSocket) answer(ctx context.Context, m socketMessage) {
	x := &exchange{
		id: newID("req_"), began: time.Now(), route: exchangeOf(k.r).route, key: k.key, outcome: "ok", stream: true,
		held: m.held, made: k.memory.hold(k.key),
	}
	defer k.exits.openRequest(x)()
	x.span = k.Traces.Within(exchangeOf(k.r).span)
	ctx, cancel := k.bounded(context.WithValue(ctx, exchangeKey{}, x))
	defer cancel()
	r := k.r.WithContext(ctx)
	r.Method = http.MethodPost // as which it would come otherwise
	defer k.account(r, x)
	k.metrics.streams.Inc()
	defer k.metrics.streams.Dec()
	if err := k.create(r, x, m.body); err != nil {
		k.failed(r, x, err)
	}
}

func (k *responseSocket) create(r *http.Request, x *exchange, message []byte) error {
	if err := k.admit(route{access: keyed}, k.r, x); err != nil { // the key may have been revoked, or limited
		return err
	}
	if err := k.weigh(r.Context(), x, message); err != nil {
		return err
	}
	req, err := openai.DecodeResponseCreate(message)
	if err != nil {
		return err
	}
	x.model = req.Model
	if req.Model, req.Reasoning.Effort, err = k.limit(x, req.Model, req.Reasoning.Effort, 1); err != nil {
		return err
	}
	job, err := k.newResponse(r.Context(), x, req, k.last)
	if err != nil {
		return err
	}
	job.recall = true
	out := delivery{
		send:  func(events []openai.ResponseEvent) error { return k.sendEvents(x, events) },
		begun: func() bool { return x.status != 0 },
		end:   func(events []openai.ResponseEvent, _ openai.Response) error { return k.sendEvents(x, events) },
	}
	var kept *remembered
	if req.NoGenerate {
		kept, err = k.warmUp(r, x, job, out)
	} else {
		kept, err = k.respond(k.w, r, x, job, out)
	}
	if kept != nil {
		k.remember(kept)
	}
	return err
}

// remember keeps a response for the next request, if it fits the limit that a
// client is held to when it sends the whole conversation, and memory.
func (k *responseSocket) remember(response *remembered) {
	size := size(response.items)
	k.last = nil
	k.held.keep(0)
	if size <= k.BodyLimit && k.held.try(size+int64(len(response.items))*perItem/2) {
		k.last = response
	}
}

// warmUp answers a request that asks nothing of the model. Its input is what the
// next one continues.
func (s *Server) warmUp(r *http.Request, x *exchange, job *responding, out delivery) (*remembered, error) {
	b := openai.NewResponseBuilder(job.req, job.blank, "", newID)
	events := b.End(openai.FinishStop, &openai.Usage{}, time.Now().Unix())
	kept := s.keep(r.Context(), x, job, b)
	return kept, out.end(events, b.Response())
}

// failed tells of an error, unless the events have told of it already.
func (k *responseSocket) failed(r *http.Request, x *exchange, err error) {
	if errors.Is(err, errClientGone) {
		x.outcome = "client_gone"
		if x.status == 0 {
			x.status = statusClientGone
		}
		return
	}
	e := k.clientError(r, err)
	x.outcome = e.Code
	if x.status == 0 {
		x.status = e.Status
		k.sendError(e)
	}
}

func (k *responseSocket) sendEvents(x *exchange, events []openai.ResponseEvent) error {
	for _, e := range events {
		if x.status == 0 {
			x.begun()
			x.status, x.firstByte = http.StatusOK, time.Now()
		}
		if err := k.send(e); err != nil {
			return err
		}
	}
	return nil
}

// sendError sends an error that belongs to no response. A client that cannot be
// told is noticed by the reader.
func (k *responseSocket) sendError(e *openai.Error) {
	event := openai.ErrorEvent{Type: "error", Status: e.Status, Error: e}
	if e.RetryAfter > 0 {
		event.Headers = map[string]string{"retry-after": strconv.Itoa(int(e.RetryAfter.Round(time.Second).Seconds()))}
	}
	_ = k.send(event)
}

// send may be called from any goroutine. It does not end with the request: the
// end has to be told, too.
func (k *responseSocket) send(v any) error {
	data, err := openai.Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.r.Context()), k.IdleTimeout)
	defer cancel()
	k.sending.Add(1)
	defer k.sending.Add(-1)
	if k.conn.Write(ctx, websocket.MessageText, data) != nil {
		return errClientGone
	}
	return nil
}
