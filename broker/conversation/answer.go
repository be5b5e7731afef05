package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// closing is how long after a request the end of its connection may be due to an earlier close by the endpoint.
const closing = 2 * time.Second

// over sends a request over a WebSocket, and returns its answer as one by HTTP. It returns errNothing if the request
// may go out again.
func (c *Conversations) over(s *socket, r *http.Request, q *request, from int) (*http.Response, error) {
	ctx, began := r.Context(), time.Now()
	previous := ""
	if from > 0 {
		previous = s.has.response
	}
	if err := s.conn.Write(ctx, websocket.MessageText, q.message(from, previous, r.Header)); err != nil {
		c.end(s)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errNothing // a message is a request when it is whole
	}
	header := s.header.Clone()
	header.Set("Content-Type", "text/event-stream")
	for {
		event, err := s.next(ctx)
		switch {
		case err == nil && kindOf(event) == "codex.rate_limits":
			addLimits(header, event)
			continue
		case err == nil && kindOf(event) == "error":
			c.end(s)
			c.line.Answered(time.Since(began), false)
			return c.refusal(r, event)
		case err == nil:
			c.line.Answered(time.Since(began), from > 0)
			body := &answer{c: c, s: s, ctx: ctx, has: q.sent()}
			body.take(event)
			return answerOf(r, http.StatusOK, header, body), nil
		}
		c.end(s)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Since(began) < closing:
			return nil, errNothing
		}
		return nil, c.line.Failed(err)
	}
}

func answerOf(r *http.Request, status int, h http.Header, body io.ReadCloser) *http.Response {
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: body, ContentLength: -1, Request: r}
}

// answer is the body of an answer: its events, as in one by HTTP.
type answer struct {
	c     *Conversations
	s     *socket
	ctx   context.Context // of the request, as the body of net/http has it
	left  []byte          // of an event
	has   *known          // that the endpoint has after the answer; nil: nothing is known
	ended bool
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if len(a.left) == 0 {
		if a.ended {
			return 0, io.EOF
		}
		event, err := a.s.next(a.ctx)
		if err != nil {
			a.ended = true
			a.c.end(a.s)
			if a.ctx.Err() != nil {
				return 0, err
			}
			return 0, a.c.line.Failed(err)
		}
		a.take(event)
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// Close implements io.Closer. The WebSocket ends with an answer that is not read to its end.
func (a *answer) Close() error {
	if !a.ended {
		a.ended = true
		a.c.end(a.s)
	}
	return nil
}

// take takes an event of the endpoint.
func (a *answer) take(event []byte) {
	kind := kindOf(event)
	switch kind {
	case "response.output_item.done":
		a.add(member(event, "item"))
	case "response.completed":
		a.ended = true
		if a.has != nil {
			a.has.response = word(member(member(event, "response"), "id"))
		}
		if a.has != nil && a.has.response == "" {
			a.has = nil
		}
		a.c.finish(a.s, a.has)
	case "response.failed", "response.incomplete":
		a.ended = true
		a.c.end(a.s)
	case "error": // codex reads it in a WebSocket alone
		a.ended = true
		a.c.end(a.s)
		kind, event = "response.failed", failure(event)
	}
	a.left = append(append(make([]byte, 0, len(event)+len(kind)+20), "event: "...), kind...)
	a.left = append(append(append(a.left, "\ndata: "...), oneLine(event)...), "\n\n"...)
}

func (a *answer) add(output []byte) {
	if a.has == nil {
		return
	}
	d, ok := essence(output)
	if !ok {
		a.has = nil
		return
	}
	a.has.items = append(a.has.items, item{digest: d, output: true})
}

// oneLine is a text of JSON without the ends of lines that it may have between its parts.
func oneLine(event []byte) []byte {
	if !bytes.ContainsAny(event, "\r\n") {
		return event
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, event)
}

func kindOf(event []byte) string { return word(member(event, "type")) }

// failure is an error as the last event of an answer.
func failure(event []byte) []byte {
	fault := member(event, "error")
	if fault == nil {
		fault = []byte("{}")
	}
	made, err := json.Marshal(map[string]any{"type": "response.failed",
		"response": map[string]any{"status": "failed", "error": json.RawMessage(fault)}})
	if err != nil { // the error is no JSON
		return []byte(`{"type":"response.failed","response":{"status":"failed","error":{}}}`)
	}
	return made
}
