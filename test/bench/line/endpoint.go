// Package line plays a model endpoint that is far away: TLS with HTTP/2 and WebSockets, as that of OpenAI has them,
// behind a line with a round trip and a bounded way up. It answers each request at once, with the same text.
package line

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

// Answer is the text of each answer.
const Answer = "It is a fine day."

// maxRequest bounds a request, in bytes: that of codex.
const maxRequest = 64 << 20

// Options say how far away the endpoint is.
type Options struct {
	RoundTrip time.Duration
	Up        int64         // bits a second towards the endpoint; 0: no bound
	Idle      time.Duration // after which it closes a connection that nothing uses; 0: never
}

// Endpoint is one endpoint at one distance. Its methods may be called from any goroutine.
type Endpoint struct {
	Address string // HOST:PORT of the near end of the line

	idle                  time.Duration
	connections, requests atomic.Int64
	upgrades, warmups     atomic.Int64
}

// Counts are what has come since the start.
type Counts struct {
	Connections int64 // of TCP
	Requests    int64 // for an answer, by HTTP or WebSocket
	Upgrades    int64 // to a WebSocket
	Warmups     int64 // requests by which codex prepares a WebSocket, for no answer
}

// Since is what has come after an earlier time.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Connections - before.Connections, c.Requests - before.Requests, c.Upgrades - before.Upgrades,
		c.Warmups - before.Warmups}
}

// Counts returns what has come until now.
func (e *Endpoint) Counts() Counts {
	return Counts{e.connections.Load(), e.requests.Load(), e.upgrades.Load(), e.warmups.Load()}
}

// Start serves an endpoint with a certificate of the authority, in goroutines of g, until ctx ends.
func Start(ctx context.Context, g *errgroup.Group, a *Authority, o Options) (*Endpoint, error) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	e := &Endpoint{Address: near.Addr().String(), idle: o.Idle}
	server := &http.Server{
		Handler: http.HandlerFunc(e.serve), IdleTimeout: o.Idle, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.leaf}, MinVersion: tls.VersionTLS12},
	}
	g.Go(func() error {
		if err := server.ServeTLS(far, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error { return e.lead(near, far.Addr().String(), o) })
	context.AfterFunc(ctx, func() { _, _ = server.Close(), near.Close() })
	return e, nil
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		e.upgrades.Add(1)
		e.webSocket(w, r)
	case r.Method == http.MethodPost:
		e.post(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"models":[],"data":[]}`)
	}
}

// post answers with a stream of events.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range e.events(body) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event.kind, event.text)
		if bytes.HasPrefix(body, held) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
	}
}

// held begins a request whose answer does not end before its client has gone.
var held = []byte("HELD")

// Held is a request whose answer does not end after its first event.
func Held(body []byte) []byte { return append(bytes.Clone(held), body...) }

// webSocket answers the messages of a connection until it is idle for too long.
func (e *Endpoint) webSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxRequest)
	for {
		body, err := e.read(r.Context(), conn)
		if err != nil {
			return
		}
		for _, event := range e.events(body) {
			if conn.Write(r.Context(), websocket.MessageText, event.text) != nil {
				return
			}
		}
	}
}

func (e *Endpoint) read(ctx context.Context, conn *websocket.Conn) ([]byte, error) {
	if e.idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.idle)
		defer cancel()
	}
	_, body, err := conn.Read(ctx)
	return body, err
}

// event is one of an answer.
type event struct {
	kind string
	text []byte // JSON
}

// object is one of JSON.
type object = map[string]any

// events are those of an answer. A request that prepares a connection (generate: false) gets no text.
func (e *Endpoint) events(body []byte) []event {
	var request struct {
		Model    string
		Generate *bool
	}
	_ = json.Unmarshal(body, &request) // codex sends JSON
	n := e.requests.Add(1)
	response := object{"id": fmt.Sprintf("resp_%d", n), "object": "response", "status": "in_progress", "model": request.Model,
		"output": []any{}}
	item := object{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": Answer, "annotations": []any{}}}}
	created, done := encoded("response.created", object{"response": response}), completed(response, item)
	if request.Generate != nil && !*request.Generate {
		e.requests.Add(-1)
		e.warmups.Add(1)
		return []event{created, done}
	}
	begun := object{"id": item["id"], "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
	return []event{
		created,
		encoded("response.output_item.added", object{"output_index": 0, "item": begun}),
		encoded("response.output_text.delta", object{"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": Answer}),
		encoded("response.output_item.done", object{"output_index": 0, "item": item}),
		done,
	}
}

func completed(response, item object) event {
	done := object{"output": []any{item}, "usage": object{"input_tokens": 10, "output_tokens": 3, "total_tokens": 13,
		"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}
	for name, value := range response {
		if _, ok := done[name]; !ok {
			done[name] = value
		}
	}
	done["status"] = "completed"
	return encoded("response.completed", object{"response": done})
}

func encoded(kind string, fields object) event {
	fields["type"] = kind
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // these values have no error
	}
	return event{kind, text}
}
