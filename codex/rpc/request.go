package rpc

import (
	"context"
	"encoding/json"
)

// Request is a request that has an id and is encoded. The caller passes it to Send.
type Request struct {
	*pending
	id      int64
	message []byte
}

// pending is a request without its reply.
type pending struct {
	method string
	reply  chan Reply // capacity 1; nil when nobody waits
	// late handles a reply after its caller has stopped waiting, or the end of the connection before it. It must not
	// block. May be nil.
	late func(Reply)
}

// Call sends a request and decodes the reply's result into result, which may be nil. It returns an *Error for an error
// reply, a *WaitError with the context's cause when ctx ends first (a later reply is dropped), and the connection's
// cause when it closes.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.CallLate(ctx, method, params, result, nil)
}

// CallLate is Call with a function for a reply received after a *WaitError. The function must not block.
func (c *Conn) CallLate(ctx context.Context, method string, params, result any, late func(Reply)) error {
	r, err := c.NewRequest(ctx, method, params)
	if err != nil {
		return err
	}
	if err := c.Send(ctx, r); err != nil {
		return err
	}
	return c.Await(ctx, r, result, late)
}

// NewRequest registers and encodes a request. The caller passes it to Send, or to Cancel.
func (c *Conn) NewRequest(ctx context.Context, method string, params any) (r Request, err error) {
	r = Request{pending: &pending{method: method, reply: make(chan Reply, 1)}}
	if r.id, err = c.register(r.pending); err != nil {
		return r, err
	}
	if r.message, err = encodeRequest(r.id, method, params, traceOf(ctx)); err != nil {
		c.abandon(r.id)
	}
	return r, err
}

// Cancel forgets requests that were not sent.
func (c *Conn) Cancel(requests ...Request) {
	for _, r := range requests {
		c.abandon(r.id)
	}
}

// Send sends the requests directly after each other. An error means that none was sent, and cancels them.
func (c *Conn) Send(ctx context.Context, requests ...Request) error {
	messages := make([][]byte, len(requests))
	for i, r := range requests {
		messages[i] = r.message
	}
	err := c.writer.sendBulk(ctx, messages...)
	if err != nil {
		c.Cancel(requests...)
	}
	return err
}

// Await waits for the reply to a request that was sent. It returns the same errors as Call; late as in CallLate, may be
// nil.
func (c *Conn) Await(ctx context.Context, r Request, result any, late func(Reply)) error {
	select {
	case reply := <-r.reply:
		return reply.Decode(result)
	case <-c.done:
		if c.abandon(r.id) {
			return c.Err()
		}
		return (<-r.reply).Decode(result)
	case <-ctx.Done():
	}
	if late == nil {
		late = func(Reply) {} // the reply is still expected
	}
	switch detached, err := c.detach(r, late); {
	case !detached: // the reply arrived at the same moment
		return (<-r.reply).Decode(result)
	case err != nil:
		return err
	default:
		return &WaitError{r.method, context.Cause(ctx)}
	}
}

// Post sends a request before the bulk without waiting. then, if not nil, runs once, when the reply arrives or the
// connection closes; it must not block.
func (c *Conn) Post(method string, params any, then func(Reply)) {
	id, err := c.register(&pending{method: method, late: then})
	if err == nil {
		if err = c.sendPosted(id, method, params); err == nil || !c.abandon(id) {
			return // or Close has called then
		}
		c.Close(err)
	}
	if then != nil {
		then(Reply{method: method, closed: err})
	}
}

func (c *Conn) sendPosted(id int64, method string, params any) error {
	b, err := encodeRequest(id, method, params, nil)
	if err != nil {
		return err
	}
	return c.writer.sendControl(b)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	b, err := encode(method, notification{Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.writer.sendBulk(ctx, b)
}

// Reply answers the peer's request of that id with a result, without blocking. The caller closes the connection with
// the error, or returns it from OnRequest.
func (c *Conn) Reply(id json.RawMessage, result any) error {
	return c.answer(response{ID: id, Result: result})
}

// Refuse answers the peer's request of that id with an error, like Reply.
func (c *Conn) Refuse(id json.RawMessage, e *Error) error {
	return c.answer(response{ID: id, Error: e})
}

func (c *Conn) answer(r response) error {
	b, err := encode("an answer", r)
	if err != nil {
		return lost("answer", err)
	}
	return c.writer.sendControl(b)
}
