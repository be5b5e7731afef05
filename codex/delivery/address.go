package delivery

import (
	"errors"

	"codex-proxy/codex/jsonscan"
	"codex-proxy/codex/rpc"
)

// The members of a notification's parameters that are needed to deliver it, as indexes of rpc.Message.Fields.
const (
	fieldThreadID = iota
	fieldTurnID
	fieldTurn
	fieldItemID
	fieldItem
	fieldDelta
)

// Fields are the members for rpc.Options.
var Fields = rpc.FieldNames{
	fieldThreadID: "threadId",
	fieldTurnID:   "turnId",
	fieldTurn:     "turn",
	fieldItemID:   "itemId",
	fieldItem:     "item",
	fieldDelta:    "delta",
}

// TextDelta is the method of most notifications.
const TextDelta = "item/agentMessage/delta"

// Address is the thread and the turn of a notification; empty if its parameters have none.
type Address struct{ ThreadID, TurnID []byte }

// AddressOf reads the address of a notification. A turn that does not parse is delivered to its thread, where the
// transcript fails on it.
func AddressOf(m *rpc.Message) (a Address, err error) {
	if len(m.Params) == 0 || string(m.Params) == "null" {
		return a, nil
	}
	if m.Params[0] != '{' {
		return a, errors.New("its parameters are no object")
	}
	var noThread, noTurn error
	a.ThreadID, noThread = optionalText(m.Fields[fieldThreadID])
	a.TurnID, noTurn = optionalText(m.Fields[fieldTurnID])
	if m.Method == "turn/started" || m.Method == "turn/completed" {
		a.TurnID = idOf(m.Fields[fieldTurn])
	}
	return a, errors.Join(noThread, noTurn)
}

// optionalText is the text of a member that may be missing.
func optionalText(v []byte) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return jsonscan.Text(v)
}

func idOf(turn []byte) (id []byte) {
	members := jsonscan.Open(turn)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		if string(name) == "id" {
			id, _ = jsonscan.Text(value)
		}
	}
	return id
}

// deltaOf is the text in a notification and its item; false if the notification is no text delta, or incomplete.
func deltaOf(m *rpc.Message) (item, text []byte, ok bool) {
	if m.Method != TextDelta {
		return nil, nil, false
	}
	item, noItem := optionalText(m.Fields[fieldItemID])
	text, noText := optionalText(m.Fields[fieldDelta])
	return item, text, noItem == nil && noText == nil
}

// messageOf is the finished message in an item/completed; false if it is another item, or does not parse.
func messageOf(m *rpc.Message) (id, text []byte, ok bool) {
	if m.Method != "item/completed" {
		return nil, nil, false
	}
	kind, err := []byte(nil), error(nil)
	members := jsonscan.Open(m.Fields[fieldItem])
	for name, value, ok := members.Next(); ok && err == nil; name, value, ok = members.Next() {
		switch string(name) {
		case "type":
			kind, err = jsonscan.Text(value)
		case "id":
			id, err = jsonscan.Text(value)
		case "text":
			text, err = jsonscan.Text(value)
		}
	}
	return id, text, err == nil && members.Err() == nil && string(kind) == "agentMessage"
}
