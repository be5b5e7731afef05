package hands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// maxMessage bounds a message that this process itself reads of an exec-server, in bytes: a program of the session may
// have written it.
const maxMessage = 16 << 20

// connection is a connection of this process to the exec-server, for one request after the other. It belongs to one
// goroutine.
type connection struct {
	ws      *websocket.Conn
	next    int
	session string // of the exec-server
}

// message is a message of the protocol of exec-server.
type message struct {
	ID     *int            `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// connect opens a connection that the caller closes.
func (h *Hands) connect(ctx context.Context) (*connection, error) {
	ws, err := h.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("the hands do not answer: %w", err)
	}
	ws.SetReadLimit(maxMessage)
	c := &connection{ws: ws}
	server, err := c.greet(ctx, nil)
	if err != nil {
		c.close()
		return nil, err
	}
	c.session = server.Session
	return c, nil
}

// greet does the handshake, for a new session or an earlier one.
func (c *connection) greet(ctx context.Context, session *string) (s Server, err error) {
	hello := map[string]any{"clientName": "codex-proxy", "resumeSessionId": session}
	text, err := c.call(ctx, "initialize", hello, nil)
	if err == nil {
		_ = json.Unmarshal(text, &s) // its members change between versions, and few are of use here
		err = wsjson.Write(ctx, c.ws, map[string]any{"method": "initialized", "params": struct{}{}})
	}
	return s, err
}

// refusedError is an error of the exec-server itself.
type refusedError struct{ words string }

func (e *refusedError) Error() string { return e.words }

func (c *connection) close() { _ = c.ws.CloseNow() }

// call makes a request. each, unless nil, gets the notifications before the answer.
func (c *connection) call(ctx context.Context, method string, params any, each func(message)) (json.RawMessage, error) {
	id, err := c.send(ctx, method, params)
	for err == nil {
		var m message
		if m, err = c.read(ctx); err != nil {
			break
		}
		switch {
		case m.ID == nil || m.Method != "":
			if each != nil {
				each(m)
			}
		case *m.ID == id && m.Error != nil:
			return nil, &refusedError{m.Error.Message}
		case *m.ID == id:
			return m.Result, nil
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		err = cause
	}
	return nil, fmt.Errorf("the connection to the hands has ended: %w", err)
}

// send sends a request, and returns its ID.
func (c *connection) send(ctx context.Context, method string, params any) (id int, err error) {
	c.next++
	return c.next, wsjson.Write(ctx, c.ws, map[string]any{"id": c.next, "method": method, "params": params})
}

func (c *connection) read(ctx context.Context) (m message, err error) {
	err = wsjson.Read(ctx, c.ws, &m)
	return m, err
}

// ask makes one request on a connection of its own.
func (h *Hands) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.call(ctx, method, params, nil)
}
