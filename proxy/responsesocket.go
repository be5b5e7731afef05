package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	ahead   chan []byte  // messages response.create
	waiting atomic.Int64 // bytes of them
	last    *remembered
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
	conn, err := websocket.Accept(w, r, nil) // it wants a page's Origin to be this host
	if err != nil {
		x.outcome = "bad_upgrade" // Accept has answered
		return nil
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed by then, or of no use
	x.status = http.StatusSwitchingProtocols
	conn.SetReadLimit(s.BodyLimit)
	k := &responseSocket{Server: s, conn: conn, w: w, r: r, key: x.key, ahead: make(chan []byte, maxAhead)}
	k.run()
	return nil
}

// run serves until the client goes, nothing happens for too long, or the service
// leaves; then the response in flight comes to its end first.
func (k *responseSocket) run() {
	ctx, cancel := context.WithCancelCause(k.r.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer k.conn.CloseNow() //nolint:errcheck // what ends the reader
	defer cancel(nil)
	others.Go(func() { cancel(k.read()) })
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
		case message := <-k.ahead:
			k.waiting.Add(-int64(len(message)))
			k.answer(ctx, message)
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

// bye closes the connection properly. That the client does not answer is no
// matter.
func (k *responseSocket) bye(why string) { _ = k.conn.Close(websocket.StatusGoingAway, why) }

// read takes messages until the connection ends. It never waits for anything
// else: it is what notices that the client goes.
func (k *responseSocket) read() error {
	ctx := context.WithoutCancel(k.r.Context()) // CloseNow ends it, after what has to be said
	for {
		kind, message, err := k.conn.Read(ctx)
		switch {
		case err != nil:
			return errClientGone
		case kind != websocket.MessageText:
			_ = k.conn.Close(websocket.StatusUnsupportedData, "send text messages")
			return errClientGone
		}
		if err := k.take(message); err != nil {
			k.sendError(err)
		}
	}
}

func (k *responseSocket) take(message []byte) *openai.Error {
	var head struct {
		Type       string `json:"type"`
		ResponseID string `json:"response_id"`
	}
	if json.Unmarshal(message, &head) != nil {
		return openai.Invalid("invalid_json", "", "a message must be a JSON object with a type")
	}
	switch head.Type {
	case "response.create":
		return k.queue(message)
	case "response.cancel":
		if running := k.running.find(head.ResponseID, k.key); running != nil {
			running.cancel(errCancelled)
			return nil
		}
		return openai.Invalid("response_not_found", "response_id", "there is no such response in flight")
	case "response.processed": // codex tells that it has done with one
		return nil
	default:
		return openai.Invalid("invalid_value", "type", fmt.Sprintf("there is no message of type %q; send response.create", bounded(head.Type)))
	}
}

// queue has a request wait for those before it, of which there are not too many
// nor too large ones.
func (k *responseSocket) queue(message []byte) *openai.Error {
	size := int64(len(message))
	if k.waiting.Add(size) > k.BodyLimit {
		k.waiting.Add(-size)
		return tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("the requests that wait on this connection would be larger than %d bytes (body_limit); use another one", k.BodyLimit), time.Second)
	}
	select {
	case k.ahead <- message:
		return nil
	default:
		k.waiting.Add(-size)
		return tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("%d requests wait on this connection already; use another one", maxAhead), time.Second)
	}
}

// ping keeps the line open, and finds out when nobody is at its other end.
func (k *responseSocket) ping(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(k.Keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		within, done := context.WithTimeout(context.WithoutCancel(ctx), pongTimeout)
		err := k.conn.Ping(within)
		done()
		if err != nil {
			cancel(errClientGone)
			return
		}
	}
}

// answer serves one message response.create, which is a request of its own in
// log and metrics.
func (k *responseSocket) answer(ctx context.Context, message []byte) {
	x := &exchange{id: newID("req_"), began: time.Now(), route: exchangeOf(k.r).route, key: k.key, outcome: "ok", stream: true}
	x.span = k.Traces.Within(exchangeOf(k.r).span)
	ctx, cancel := k.bounded(context.WithValue(ctx, exchangeKey{}, x))
	defer cancel()
	r := k.r.WithContext(ctx)
	r.Method = http.MethodPost // as which it would come otherwise
	defer k.account(r, x)
	k.metrics.streams.Inc()
	defer k.metrics.streams.Dec()
	if err := k.create(r, x, message); err != nil {
		k.failed(r, x, err)
	}
}

func (k *responseSocket) create(r *http.Request, x *exchange, message []byte) error {
	req, err := openai.DecodeResponseCreate(message)
	if err != nil {
		return err
	}
	x.model = req.Model
	if err := k.admit(route{access: keyed}, k.r, x); err != nil { // the key may have been revoked, or limited
		return err
	}
	if req.Model, req.Reasoning.Effort, err = k.limit(x, req.Model, req.Reasoning.Effort, 1); err != nil {
		return err
	}
	job, err := k.newResponse(r.Context(), x, req, k.last)
	if err != nil {
		return err
	}
	out := delivery{
		send:  func(events []openai.ResponseEvent) error { return k.sendEvents(x, events) },
		begun: func() bool { return x.status != 0 },
		end:   func(events []openai.ResponseEvent, _ openai.Response) error { return k.sendEvents(x, events) },
	}
	var kept *remembered
	if req.Idle {
		kept, err = k.warmUp(r, x, job, out)
	} else {
		kept, err = k.respond(k.w, r, x, job, out)
	}
	if kept != nil {
		k.last = kept.within(k.BodyLimit)
	}
	return err
}

// within is what fits the limit that a client is held to when it sends the whole
// conversation; nil otherwise.
func (m *remembered) within(limit int64) *remembered {
	for _, item := range m.items {
		limit -= int64(len(item.JSON))
	}
	if limit < 0 {
		return nil
	}
	return m
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
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.r.Context()), k.IdleTimeout)
	defer cancel()
	if k.conn.Write(ctx, websocket.MessageText, data) != nil {
		return errClientGone
	}
	return nil
}
