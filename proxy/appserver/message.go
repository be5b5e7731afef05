package appserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// request, notification and response are the three shapes we send
// (JSON-RPC 2.0 without "jsonrpc").
type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
	Trace  *Trace `json:"trace,omitempty"`
}

type notification struct {
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *RPCError       `json:"error,omitempty"`
}

// incoming is any message of the peer. Which one it is follows from the
// members that are present.
type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// Notification is a message of codex that wants no answer.
type Notification struct {
	Method string
	Params json.RawMessage
}

// address is what routing needs of a notification's parameters.
type address struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// address reads whose notification it is; none without parameters. A turn that
// does not parse still belongs to its thread, whose transcript will fail on it.
func (n Notification) address() (a address, err error) {
	if len(n.Params) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(n.Params, &a); err != nil {
		return a, err
	}
	if n.Method == "turn/started" || n.Method == "turn/completed" {
		var p turnCompletedParams
		_ = json.Unmarshal(n.Params, &p)
		a.TurnID = p.Turn.ID
	}
	return a, nil
}

func parseIncoming(b []byte) (incoming, error) {
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return incoming{}, fmt.Errorf("not a JSON object: %.80q", b)
	}
	var m incoming
	if err := json.Unmarshal(b, &m); err != nil {
		return incoming{}, fmt.Errorf("%w in %.80q", err, b)
	}
	return m, nil
}

func (m incoming) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }
func (m incoming) isReply() bool   { return m.Method == "" && len(m.ID) > 0 }

// number is the id as one of ours; false for any id that we cannot have made.
func (m incoming) number() (int64, bool) {
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return n, err == nil
}
