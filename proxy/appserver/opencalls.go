package appserver

import (
	"bytes"
	"encoding/json"
	"time"

	"codex-proxy/proxy/appserver/rpc"
)

// The calls of a client's tools stay open: their turn ends with the response
// that has called them, and the interrupt that follows ends the calls. But codex
// 0.169 says that a response was cut off, or failed otherwise, only when all calls
// in it are answered. So when nothing has come for CallPatience after a call, they
// are answered, with a failure. A model that was only slow over its next call
// goes on, and that call stays open. One that is slow after its last call costs a
// request: codex sends the answers upstream, and the interrupt cuts that off.

// hold keeps a call open if the client has tools.
func (c *Conn) hold(m *rpc.Message) (held bool) {
	to, err := addressOf(m)
	if err != nil {
		return false
	}
	c.update(func(s *state) {
		box := s.threads[string(to.threadID)]
		if held = box != nil && box.tools; held {
			box.open = append(box.open, bytes.Clone(m.ID))
			box.heard = time.Now()
			box.signal()
		}
	})
	return held
}

// impatience fires when the open calls of the turn have to be answered.
func (t *Turn) impatience() <-chan time.Time {
	var open bool
	var heard time.Time
	t.conn.update(func(*state) { open, heard = len(t.box.open) > 0, t.box.heard })
	if !open {
		return nil
	}
	return time.After(time.Until(heard.Add(t.conn.opts.CallPatience)))
}

// giveUp answers the open calls.
func (t *Turn) giveUp() error {
	var open []json.RawMessage
	t.conn.update(func(*state) { open, t.box.open = t.box.open, nil })
	for _, id := range open {
		result, _ := answers("item/tool/call")
		if err := t.conn.Reply(id, result); err != nil {
			return err
		}
	}
	return nil
}
