package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"codex-proxy/codex/jsonscan"
)

// Reply is the outcome of a request: a result, an error of the peer, or the end of the connection.
type Reply struct {
	// Error is the peer's error, nil for a result and after the end of the connection.
	Error  *Error
	method string
	result json.RawMessage
	closed error // the cause, if the connection has closed before the reply
}

// Decode stores the result in v, which may be nil. Its error is an *Error for an error reply, and the connection's
// cause after its end.
func (r Reply) Decode(v any) error {
	switch {
	case r.closed != nil:
		return r.closed
	case r.Error != nil:
		return r.Error
	case v == nil:
		return nil
	case len(r.result) == 0:
		return fmt.Errorf("cannot decode the reply to %s: %w", r.method, errors.New("no result"))
	}
	if err := jsonscan.Unmarshal(r.result, v); err != nil {
		return fmt.Errorf("cannot decode the reply to %s: %w", r.method, err)
	}
	return nil
}

// settle delivers the reply in a message.
func (c *Conn) settle(m Message) {
	var p *pending
	r := Reply{Error: m.Error}
	if id, ok := m.number(); ok {
		c.update(func(s *state) {
			if p = s.pending[id]; p == nil {
				return
			}
			delete(s.pending, id)
			r.method = p.method
			if p.reply != nil {
				r.result = bytes.Clone(m.Result)
				p.reply <- r // capacity 1, and only one reply finds the entry
			}
		})
	}
	switch {
	case p == nil:
		c.opts.Logger.Warn("codex app-server answered a request that is not pending", "id", string(m.ID), "error",
			m.Error)
	case p.reply == nil && p.late != nil:
		r.result = m.Result
		p.late(r)
	}
}
