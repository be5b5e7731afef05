package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"codex-proxy/codex/jsonscan"
)

// Message is any message of the peer; the members that are present distinguish a request, a reply and a notification.
// Its values lie in the read buffer: a handler copies the values that outlive it.
type Message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	// Fields are the values of the members of Params that Options.Fields names, in that order; nil where a member is
	// missing.
	Fields [fieldCount][]byte
	// At is when the message arrived.
	At     time.Time
	Result json.RawMessage
	Error  *Error
}

// fieldCount is how many members appserver needs to deliver a notification.
const fieldCount = 6

// FieldNames are names of members of a message's parameters. The pass that parses the message picks them out.
type FieldNames [fieldCount]string

// Parse reads a message.
func Parse(b []byte, fields *FieldNames) (m Message, err error) {
	members := jsonscan.Open(b)
	for name, ok := members.Name(); ok && err == nil; name, ok = members.Name() {
		if string(name) == "params" {
			m.Params, _ = members.Fields(fields[:], m.Fields[:])
			continue
		}
		value, _ := members.Value()
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
	if err = errors.Join(err, members.Err()); err != nil {
		return Message{}, fmt.Errorf("%w: %.80q", err, b)
	}
	return m, nil
}

// parseError is a function of its own so that messages without an error stay off the heap.
func parseError(value []byte) (e *Error, err error) {
	err = json.Unmarshal(value, &e)
	return e, err
}

// methodName allocates no string for the methods of every turn.
func methodName(v []byte) (string, error) {
	name, err := jsonscan.Text(v)
	if known, ok := frequent[string(name)]; ok {
		return known, nil
	}
	return string(name), err
}

var frequent = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/started", "item/completed",
		"rawResponseItem/completed", "rawResponse/completed", "thread/tokenUsage/updated", "thread/status/changed",
		"turn/started", "turn/completed", "thread/started", "account/rateLimits/updated",
	} {
		names[name] = name
	}
	return names
}()

func (m *Message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }
func (m *Message) isReply() bool   { return m.Method == "" && len(m.ID) > 0 }

// number is the id as one of this side; false for any other form.
func (m *Message) number() (int64, bool) {
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return n, err == nil
}
