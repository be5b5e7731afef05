package appserver

import (
	"bytes"
	"encoding/json"
	"time"

	"codex-proxy/codex/rpc"
)

// Calls of a client's tools stay open: their turn ends with the response that contains them, and the interrupt that
// follows ends the calls. But codex 0.169 reports that a response was cut off, or failed otherwise, only after all
// calls in it are answered. So CallTimeout after the last notification the open calls are answered, with a failure. A
// model that was only slow over its next call continues, and that call stays open. A model that is slow after its last
// call costs a request: codex sends the answers upstream, and the interrupt cuts that off.

// leaveOpen records a call instead of answering it, if the client has tools.
func (c *Conn) leaveOpen(m *rpc.Message) (open bool) {
	to, err := addressOf(m)
	if err != nil {
		return false
	}
	c.update(func(s *state) {
		box := s.threads[string(to.threadID)]
		if open = box != nil && box.tools; open {
			box.openCalls = append(box.openCalls, bytes.Clone(m.ID))
			box.received = time.Now()
			box.signal()
		}
	})
	return open
}

// callTimeout fires when the open calls of the turn have to be answered; it is nil without open calls.
func (t *Turn) callTimeout() <-chan time.Time {
	var open bool
	var received time.Time
	t.conn.update(func(*state) { open, received = len(t.box.openCalls) > 0, t.box.received })
	if !open {
		return nil
	}
	return time.After(time.Until(received.Add(t.conn.opts.CallTimeout)))
}

// failOpenCalls answers the open calls.
func (t *Turn) failOpenCalls() error {
	var open []json.RawMessage
	t.conn.update(func(*state) { open, t.box.openCalls = t.box.openCalls, nil })
	for _, id := range open {
		result, _ := answerTo("item/tool/call")
		if err := t.conn.Reply(id, result); err != nil {
			return err
		}
	}
	return nil
}
