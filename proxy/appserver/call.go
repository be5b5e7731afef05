package appserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// pending is a request that waits for its reply.
type pending struct {
	reply chan incoming // capacity 1; nil when nobody waits
	// late runs when the reply comes and nobody waits for it any more, or the connection
	// is closed before. It must not block. May be nil.
	late func(incoming)
}

// Call sends a request and decodes the reply's result into result, which may be
// nil. It returns an *RPCError for an error reply, the context's cause when ctx
// ends first (a later reply is dropped), and the connection's cause when it closes.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.call(ctx, method, params, result, nil)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	b, err := encode(method, notification{Method: method, Params: params})
	if err != nil {
		return err
	}
	return c.sendBulk(ctx, b)
}

// call is Call with a hand for the reply that comes after a *waitError.
func (c *Conn) call(ctx context.Context, method string, params, result any, late func(incoming)) error {
	q, err := c.question(ctx, method, params)
	if err != nil {
		return err
	}
	if err := c.ask(ctx, q); err != nil {
		return err
	}
	return c.await(ctx, q, result, late)
}

// question is a request that is registered and encoded. It has to be asked.
type question struct {
	*pending
	id      int64
	method  string
	message []byte
}

func (c *Conn) question(ctx context.Context, method string, params any) (q question, err error) {
	q = question{pending: &pending{reply: make(chan incoming, 1)}, method: method}
	if q.id, err = c.register(q.pending); err != nil {
		return q, err
	}
	if q.message, err = encodeRequest(q.id, method, params, traceOf(ctx)); err != nil {
		c.abandon(q.id)
	}
	return q, err
}

// ask sends the questions one right after the other. An error means that none was
// sent, and none is answered.
func (c *Conn) ask(ctx context.Context, questions ...question) error {
	messages := make([][]byte, len(questions))
	for i, q := range questions {
		messages[i] = q.message
	}
	err := c.sendBulk(ctx, messages...)
	if err != nil {
		c.abandonAll(questions)
	}
	return err
}

func (c *Conn) abandonAll(questions []question) {
	for _, q := range questions {
		c.abandon(q.id)
	}
}

func (c *Conn) await(ctx context.Context, q question, result any, late func(incoming)) error {
	select {
	case m := <-q.reply:
		return m.decode(q.method, result)
	case <-c.done:
		if c.abandon(q.id) {
			return c.Err()
		}
		return (<-q.reply).decode(q.method, result)
	case <-ctx.Done():
	}
	if late == nil {
		late = func(incoming) {} // the reply is still to come, and no surprise
	}
	switch handed, err := c.hand(q.id, late); {
	case !handed: // the reply came at the same moment
		return (<-q.reply).decode(q.method, result)
	case err != nil:
		return err
	default:
		return &waitError{q.method, context.Cause(ctx)}
	}
}

func (c *Conn) register(p *pending) (id int64, err error) {
	c.door.enter(func(s *state) {
		if err = s.err; err == nil {
			s.lastID++
			id = s.lastID
			s.pending[id] = p
		}
	})
	return id, err
}

// abandon gives up waiting for id. It returns false when the reply has been
// delivered already.
func (c *Conn) abandon(id int64) (abandoned bool) {
	c.door.enter(func(s *state) {
		_, abandoned = s.pending[id]
		delete(s.pending, id)
	})
	return abandoned
}

// hand gives up waiting for id, and lets late take the reply. It returns false when
// the reply has been delivered already, and the cause when the connection is closed:
// then late does not run.
func (c *Conn) hand(id int64, late func(incoming)) (handed bool, err error) {
	c.door.enter(func(s *state) {
		if _, handed = s.pending[id]; !handed {
			return
		}
		delete(s.pending, id)
		if err = s.err; err == nil {
			s.pending[id] = &pending{late: late}
		}
	})
	return handed, err
}

// settle delivers a reply.
func (c *Conn) settle(m incoming) {
	var p *pending
	if id, ok := m.number(); ok {
		c.door.enter(func(s *state) {
			p = s.pending[id]
			delete(s.pending, id)
			if p != nil && p.reply != nil {
				m.Result = bytes.Clone(m.Result)
				p.reply <- m // capacity 1, and only one reply finds the entry
			}
		})
	}
	switch {
	case p == nil:
		c.log.Warn("codex app-server answered a request that is not pending", "id", string(m.ID), "error", m.Error)
	case p.reply == nil && p.late != nil:
		p.late(m)
	}
}

// post sends a request ahead of the bulk without waiting; then, if any, runs once,
// when the reply comes or the connection is closed. A nil-reply entry keeps the
// reply from being reported as unknown.
func (c *Conn) post(method string, params any, then func(incoming)) {
	id, err := c.register(&pending{late: then})
	if err == nil {
		if err = c.sendPosted(id, method, params); err == nil || !c.abandon(id) {
			return // or Close has called then
		}
		c.Close(err)
	}
	if then != nil {
		then(incoming{gone: err})
	}
}

func (c *Conn) sendPosted(id int64, method string, params any) error {
	b, err := encodeRequest(id, method, params, nil)
	if err != nil {
		return err
	}
	return c.sendControl(b)
}

// insist is post, and again while codex is overloaded: what gives up a turn or a
// thread has nobody who would come back to it.
func (c *Conn) insist(method string, params any, then func(incoming)) {
	c.insistAfter(firstBackoff, method, params, then)
}

func (c *Conn) insistAfter(backoff time.Duration, method string, params any, then func(incoming)) {
	c.post(method, params, func(m incoming) {
		switch {
		case m.Error != nil && m.Error.Code == CodeOverloaded:
			time.AfterFunc(jitter(backoff), func() { c.insistAfter(longer(backoff), method, params, then) })
		case then != nil:
			then(m)
		}
	})
}

func (m incoming) decode(method string, result any) error {
	if m.gone != nil {
		return m.gone
	}
	if m.Error != nil {
		return m.Error
	}
	if result == nil {
		return nil
	}
	if len(m.Result) == 0 {
		return fmt.Errorf("cannot decode the reply to %s: %w", method, errors.New("no result"))
	}
	if err := unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("cannot decode the reply to %s: %w", method, err)
	}
	return nil
}
