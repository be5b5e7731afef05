package appserver

import (
	"bytes"
	"encoding/json"
	"time"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// decision answers approval requests: the commands and patches of a model never run without a user's consent.
type decision struct {
	Decision string `json:"decision"`
}

// elicitationAnswer answers an MCP server's question to the user.
type elicitationAnswer struct {
	Action  string `json:"action"`
	Content any    `json:"content"`
}

// permissionsAnswer grants the permissions that it names: none.
type permissionsAnswer struct {
	Permissions struct{} `json:"permissions"`
}

// answerTo is the result for a request of codex. All other requests get rpc.CodeMethodNotFound.
func answerTo(method string) (result any, known bool) {
	switch method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		return decision{Decision: "decline"}, true
	case "item/permissions/requestApproval":
		return permissionsAnswer{}, true
	case "mcpServer/elicitation/request":
		return elicitationAnswer{Action: "decline"}, true
	case "item/tool/call":
		text := wire.ToolContent{Type: "inputText", Text: "this tool cannot be run here"}
		return wire.ToolAnswer{ContentItems: []wire.ToolContent{text}}, true
	}
	return nil, false
}

// answer replies to a request of codex, without blocking.
func (c *Conn) answer(m rpc.Message) error {
	if m.Method == "item/tool/call" && c.leaveOpen(&m) {
		return nil
	}
	result, known := answerTo(m.Method)
	c.opts.Logger.Debug("answered a request of codex app-server", "method", m.Method, "refused", !known)
	if !known {
		return c.Refuse(m.ID, &rpc.Error{Code: rpc.CodeMethodNotFound, Message: "method not found: " + m.Method})
	}
	return c.Reply(m.ID, result)
}

// Calls of a client's tools stay open: their turn ends with the response that contains them, and the interrupt that
// follows ends the calls. But codex 0.169 reports that a response was cut off, or failed otherwise, only after all
// calls in it are answered. So CallTimeout after the last notification the open calls are answered, with a failure. A
// model that was only slow over its next call continues, and that call stays open. A model that is slow after its last
// call costs a request: codex sends the answers upstream, and the interrupt cuts that off.

// leaveOpen records a call instead of answering it, if the client has tools.
func (c *Conn) leaveOpen(m *rpc.Message) (open bool) {
	to, err := delivery.AddressOf(m)
	if err != nil {
		return false
	}
	c.update(func(s *state) {
		box := s.threads[string(to.ThreadID)]
		if open = box != nil && box.tools; open {
			box.openCalls = append(box.openCalls, bytes.Clone(m.ID))
			box.received = time.Now()
			box.queue.Signal()
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
