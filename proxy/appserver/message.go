package appserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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
	Result json.RawMessage
	Error  *RPCError
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
func (n Notification) address() (a address, err error) {
	if len(n.Params) == 0 || string(n.Params) == "null" {
		return a, nil
	}
	params := openObject(n.Params)
	for name, value, ok := params.next(); ok && err == nil; name, value, ok = params.next() {
		switch string(name) {
		case "threadId":
			a.threadID, err = text(value)
		case "turnId":
			a.turnID, err = text(value)
		case "turn":
			if n.Method == "turn/started" || n.Method == "turn/completed" {
				a.turnID = turnID(value)
			}
		}
	}
	return a, errors.Join(err, params.err)
}

// textDelta is what most notifications are, and what somebody waits to read.
const textDelta = "item/agentMessage/delta"

// delta is the text that n carries, and the item that it belongs to, if it is a
// whole textDelta. Both may lie in n.
func (n Notification) delta() (item, words []byte, ok bool) {
	if n.Method != textDelta {
		return nil, nil, false
	}
	var err error
	params := openObject(n.Params)
	for name, value, more := params.next(); more && err == nil; name, value, more = params.next() {
		switch string(name) {
		case "itemId":
			item, err = text(value)
		case "delta":
			words, err = text(value)
		}
	}
	return item, words, err == nil && params.err == nil
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
	for name, value, ok := members.next(); ok && err == nil; name, value, ok = members.next() {
		switch string(name) {
		case "id":
			m.ID = value
		case "method":
			m.Method, err = methodName(value)
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			err = json.Unmarshal(value, &m.Error)
		}
	}
	if err = errors.Join(err, members.err); err != nil {
		return incoming{}, fmt.Errorf("%w: %.80q", err, b)
	}
	return m, nil
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
	return jsonv2.Unmarshal(data, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func (m incoming) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }
func (m incoming) isReply() bool   { return m.Method == "" && len(m.ID) > 0 }

// number is the id as one of ours; false for any id that we cannot have made.
func (m incoming) number() (int64, bool) {
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return n, err == nil
}
