// Package line plays a model endpoint that is far away: TLS with HTTP/2 and WebSockets, as that of OpenAI has them,
// behind a line with a round trip and a bounded way up. It answers each request at once, with the same text.
package line

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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
	At        string // HOST:PORT of its near end; empty: a free port
	RoundTrip time.Duration
	Up        int64         // bits a second towards the endpoint; 0: no bound
	Idle      time.Duration // after which it closes a connection that nothing uses; 0: never
	Refuse    int           // the status with which it refuses WebSockets; 0: it does not
	Asked     func(Request) // is called for each request for an answer; nil: nothing is
	// First are items of the answer to the request with this number, from 1 on, before its text. With a call there is
	// no text.
	First func(n int64) []map[string]any
}

// Request is a request for an answer.
type Request struct {
	Socket   bool              // it came over a WebSocket
	Previous string            // the response that it continues
	Size     int               // of its text, in bytes
	Input    []json.RawMessage // with what the endpoint has of the responses before
	Metadata map[string]string
}

// Endpoint is one endpoint at one distance. Its methods may be called from any goroutine.
type Endpoint struct {
	Address string // HOST:PORT of the near end of the line

	options               Options
	connections, requests atomic.Int64
	upgrades, warmups     atomic.Int64
	open, mostOpen        atomic.Int64
}

// Counts are what has come since the start.
type Counts struct {
	Connections int64 // of TCP
	Requests    int64 // for an answer, by HTTP or WebSocket
	Upgrades    int64 // to a WebSocket
	Warmups     int64 // requests by which codex prepares a WebSocket, for no answer
}

// Most returns the most connections that have been open at a time since the last call.
func (e *Endpoint) Most() int64 { return e.mostOpen.Swap(e.open.Load()) }

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
	near, err := net.Listen("tcp", cmp.Or(o.At, "127.0.0.1:0"))
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	e := New(o)
	e.Address = near.Addr().String()
	server := &http.Server{
		Handler: e, IdleTimeout: o.Idle, ReadHeaderTimeout: time.Minute,
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

// New makes an endpoint that another server serves.
func New(o Options) *Endpoint { return &Endpoint{options: o} }

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "" && e.options.Refuse != 0:
		http.Error(w, "no WebSockets", e.options.Refuse)
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
	events, _ := e.events(body, nil)
	for _, event := range events {
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

// webSocket answers the messages of a connection until it is idle for too long. It has the last response in memory.
func (e *Endpoint) webSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxRequest)
	last := &memory{}
	for {
		body, err := e.read(r.Context(), conn)
		if err != nil {
			return
		}
		events, has := e.events(body, last)
		for _, event := range events {
			if conn.Write(r.Context(), websocket.MessageText, event.text) != nil {
				return
			}
		}
		last = has
	}
}

func (e *Endpoint) read(ctx context.Context, conn *websocket.Conn) ([]byte, error) {
	if e.options.Idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.options.Idle)
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

// memory is the last response, as the end of a WebSocket has it.
type memory struct {
	response string
	items    []json.RawMessage // of the request and of the response
}

// events has the events of an answer, over a WebSocket with the memory; nil: by HTTP. A request that prepares a connection
// (generate: false) gets no text.
func (e *Endpoint) events(body []byte, last *memory) (answer []event, has *memory) {
	var request struct {
		Model    string
		Generate *bool
		Input    json.RawMessage
		Previous string            `json:"previous_response_id"`
		Metadata map[string]string `json:"client_metadata"`
	}
	_ = json.Unmarshal(body, &request) // codex sends JSON
	var input []json.RawMessage
	_ = json.Unmarshal(request.Input, &input) // or a text
	if request.Previous != "" {
		if last == nil || request.Previous != last.response {
			return []event{encoded("error", object{"status": http.StatusBadRequest,
				"error": object{"code": "previous_response_not_found", "message": "Previous response not found."}})}, &memory{}
		}
		input = append(slices.Clone(last.items), input...)
	}
	if request.Generate != nil && !*request.Generate {
		e.warmups.Add(1)
		id := fmt.Sprintf("resp_w%d", e.warmups.Load())
		response := responseOf(id, request.Model)
		return []event{encoded("response.created", object{"response": response}), completed(response, nil)}, &memory{id, input}
	}
	n := e.requests.Add(1)
	if e.options.Asked != nil {
		e.options.Asked(Request{last != nil, request.Previous, len(body), input, request.Metadata})
	}
	id := fmt.Sprintf("resp_%d", n)
	response, items := responseOf(id, request.Model), e.items(n)
	answer = append(answer, encoded("response.created", object{"response": response}))
	has = &memory{response: id, items: slices.Clip(input)}
	for i, item := range items {
		if item["type"] == "message" {
			answer = append(answer, texts(i, item)...)
		}
		answer = append(answer, encoded("response.output_item.done", object{"output_index": i, "item": item}))
		text, err := json.Marshal(item)
		if err != nil {
			panic(err) // these values have no error
		}
		has.items = append(has.items, text)
	}
	return append(answer, completed(response, items)), has
}

func responseOf(id, model string) object {
	return object{"id": id, "object": "response", "status": "in_progress", "model": model, "output": []any{}}
}

// items are the items of an answer.
func (e *Endpoint) items(n int64) (all []object) {
	if e.options.First != nil {
		all = e.options.First(n)
	}
	if len(all) > 0 && all[len(all)-1]["call_id"] != nil {
		return all
	}
	return append(all, object{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": Answer, "annotations": []any{}, "logprobs": []any{}}}})
}

// texts are the events with the text of a message.
func texts(i int, item object) []event {
	begun := object{"id": item["id"], "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
	return []event{
		encoded("response.output_item.added", object{"output_index": i, "item": begun}),
		encoded("response.output_text.delta", object{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": Answer}),
	}
}

func completed(response object, items []object) event {
	done := object{"output": items, "usage": object{"input_tokens": 10, "output_tokens": 3, "total_tokens": 13,
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
