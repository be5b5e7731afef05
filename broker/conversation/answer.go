package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// closing is how long after a request the end of its connection may be due to an earlier close by the endpoint.
const closing = 2 * time.Second

// ofCodex begins the kinds of events that are for codex, and none of the response.
const ofCodex = "codex."

// mostBefore bounds the events that are held until an answer begins, in bytes.
const mostBefore = 64 << 10

// over sends a request over a WebSocket, and returns its answer as one by HTTP. It returns an *unservedError if the
// request may go out again.
func (c *Conversations) over(s *socket, r *http.Request, q *request, from int) (*http.Response, error) {
	ctx, start := r.Context(), time.Now()
	if err := s.send(ctx, q, from, r.Header); err != nil {
		c.end(s)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &unservedError{} // a message is a request when it is whole
	}
	header, body := s.header.Clone(), &answer{c: c, s: s, ctx: ctx, has: q.sent()}
	header.Set("Content-Type", "text/event-stream")
	for begun := false; ; begun = true {
		m, err := s.next(ctx)
		if err != nil {
			c.end(s)
			return nil, c.unanswered(ctx, err, begun, time.Since(start))
		}
		switch kind := kindOf(m.text); {
		case kind == ofLimits:
			addLimits(header, m.text)
			s.release(m)
		case strings.HasPrefix(kind, ofCodex) && body.holds(kind, m):
		case kind == "error":
			s.release(m)
			c.end(s)
			c.line.Answered(time.Since(start), false)
			return c.refusal(r, m.text)
		default:
			c.line.Answered(time.Since(start), from > 0)
			body.take(m)
			return answerOf(r, http.StatusOK, header, body), nil
		}
	}
}

// send sends a request from an item on.
func (s *socket) send(ctx context.Context, q *request, from int, h http.Header) error {
	previous := ""
	if from > 0 {
		previous = s.has.response
	}
	defer s.pulse.Hold()()
	return s.conn.Write(ctx, websocket.MessageText, q.message(from, previous, h))
}

// unanswered is the error of a request if its WebSocket has ended before its answer. begun: an event has arrived, so
// the endpoint is at work.
func (c *Conversations) unanswered(ctx context.Context, err error, begun bool, after time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !begun && websocket.CloseStatus(err) == websocket.StatusMessageTooBig:
		return &unservedError{misfit: true, code: "message_too_big"}
	case !begun && closed(err) && after < closing:
		return &unservedError{}
	}
	return c.line.Failed(err)
}

// closed reports whether the endpoint has closed the connection. A reset may be of a proxy, after the endpoint has
// begun.
func closed(err error) bool {
	return websocket.CloseStatus(err) != -1 || errors.Is(err, errIdle) || errors.Is(err, io.EOF)
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
	left  [][]byte        // of events, in pieces
	from  received        // has the last event
	held  int             // bytes of the events before the answer
	has   *known          // that the endpoint has after the answer; nil: nothing is known
	ended bool
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (n int, err error) {
	if len(a.left) == 0 {
		if a.ended {
			return 0, io.EOF
		}
		m, err := a.s.next(a.ctx)
		if err != nil {
			a.ended = true
			a.c.end(a.s)
			if a.ctx.Err() != nil {
				return 0, err
			}
			return 0, a.c.line.Cut(err)
		}
		a.take(m)
	}
	for n < len(p) && len(a.left) > 0 {
		copied := copy(p[n:], a.left[0])
		n += copied
		if a.left[0] = a.left[0][copied:]; len(a.left[0]) == 0 {
			a.left = a.left[1:]
		}
	}
	if len(a.left) == 0 {
		a.release()
	}
	return n, nil
}

// release gives up the last event.
func (a *answer) release() {
	a.s.release(a.from)
	a.left, a.from = nil, received{}
}

// Close implements io.Closer. The WebSocket ends with an answer that is not read to its end.
func (a *answer) Close() error {
	a.release()
	if !a.ended {
		a.ended = true
		a.c.end(a.s)
	}
	return nil
}

// holds holds an event until the answer begins: the quota or an error may follow. It reports false if there is no room
// for it.
func (a *answer) holds(kind string, m received) bool {
	if a.held += len(m.text); a.held > mostBefore {
		return false
	}
	a.add(kind, m.text)
	return true
}

// take takes an event of the endpoint.
func (a *answer) take(m received) {
	kind, event := kindOf(m.text), m.text
	switch kind {
	case ofLimits:
		reportLimits(a.ctx, event)
	case "response.output_item.done":
		a.learn(member(event, "item"))
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
	a.from = m
	a.add(kind, event)
}

// add adds an event to the text that is left.
func (a *answer) add(kind string, event []byte) {
	a.left = append(a.left, []byte("event: "+kind+"\ndata: "), oneLine(event), []byte("\n\n"))
}

// learn records an item of the answer, which the endpoint has from then on.
func (a *answer) learn(output []byte) {
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
