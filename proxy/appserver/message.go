package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
// members that are present. The values lie in the message as it was read: what
// is to outlive the handling of it is copied.
type incoming struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	parts  parts // of Params
	at     time.Time
	Result json.RawMessage
	Error  *RPCError
	gone   error // nothing has come: the connection is closed, for that cause
}

// Notification is a message of codex that wants no answer.
type Notification struct {
	Method string
	Params json.RawMessage
}

// address is what routing needs of a notification's parameters.
type address struct{ threadID, turnID []byte }

// address reads whose notification it is; none without parameters. A turn that
// does not parse still belongs to its thread, whose transcript will fail on it.
func (m incoming) address() (a address, err error) {
	if len(m.Params) == 0 || string(m.Params) == "null" {
		return a, nil
	}
	if m.Params[0] != '{' {
		return a, errors.New("its parameters are no object")
	}
	var noThread, noTurn error
	a.threadID, noThread = textOf(m.parts.threadID)
	a.turnID, noTurn = textOf(m.parts.turnID)
	if m.Method == "turn/started" || m.Method == "turn/completed" {
		a.turnID = turnID(m.parts.turn)
	}
	return a, errors.Join(noThread, noTurn)
}

// textOf is text of a member that need not be there.
func textOf(v []byte) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return text(v)
}

// textDelta is what most notifications are, and what somebody waits to read.
const textDelta = "item/agentMessage/delta"

// text is that of a textDelta and the item that it belongs to, if it is whole.
func (m incoming) text() (item, words []byte, ok bool) {
	if m.Method != textDelta {
		return nil, nil, false
	}
	item, noItem := textOf(m.parts.itemID)
	words, noWords := textOf(m.parts.delta)
	return item, words, noItem == nil && noWords == nil
}

func turnID(turn []byte) (id []byte) {
	members := openObject(turn)
	for name, value, ok := members.next(); ok; name, value, ok = members.next() {
		if string(name) == "id" {
			id, _ = text(value)
		}
	}
	return id
}

func parseIncoming(b []byte) (m incoming, err error) {
	members := openObject(b)
	for name, ok := members.name(); ok && err == nil; name, ok = members.name() {
		if string(name) == "params" {
			m.Params, m.parts, _ = members.parameters()
			continue
		}
		value, _ := members.value()
		switch string(name) {
		case "id":
			m.ID = value
		case "method":
			m.Method, err = methodName(value)
		case "result":
			m.Result = value
		case "error":
			m.Error, err = parseError(value)
		}
	}
	if err = errors.Join(err, members.err); err != nil {
		return incoming{}, fmt.Errorf("%w: %.80q", err, b)
	}
	return m, nil
}

// parseError is a function of its own so that the messages without an error stay
// off the heap.
func parseError(value []byte) (e *RPCError, err error) {
	err = json.Unmarshal(value, &e)
	return e, err
}

// methodName makes no string anew of those that come with every turn.
func methodName(v []byte) (string, error) {
	name, err := text(v)
	if known, ok := frequent[string(name)]; ok {
		return known, nil
	}
	return string(name), err
}

var frequent = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		textDelta, "item/reasoning/summaryTextDelta", "item/started", "item/completed", "rawResponseItem/completed",
		"rawResponse/completed", "thread/tokenUsage/updated", "thread/status/changed", "turn/started", "turn/completed", "thread/started",
		"account/rateLimits/updated",
	} {
		names[name] = name
	}
	return names
}()

// unmarshal is json.Unmarshal in one pass, and by the exact names.
func unmarshal(data []byte, v any) error {
	if s, ok := v.(scanned); ok {
		return scanInto(data, s)
	}
	return jsonv2.Unmarshal(data, v, lenient)
}

var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

func (m incoming) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }
func (m incoming) isReply() bool   { return m.Method == "" && len(m.ID) > 0 }

// number is the id as one of ours; false for any id that we cannot have made.
func (m incoming) number() (int64, bool) {
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return n, err == nil
}
