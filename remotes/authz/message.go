package authz

import (
	"bytes"
	"errors"

	"codex-proxy/codex/jsonscan"
)

// message is a JSON-RPC message of a client. Its parts lie in the bytes that it was read from.
type message struct {
	id     []byte // as JSON; nil if it has none
	method string // empty: an answer
	params []byte
}

var (
	errNoMessage = errors.New("no JSON-RPC message")
	errTwice     = errors.New("a JSON-RPC message with a member twice")
	// codex reads an array as the parameters in their order (serde), in which the proxy would find none by its name.
	errPlaces = errors.New("a JSON-RPC message whose parameters have no names")
)

// parse reads a message. It refuses a message that two readers could understand in two ways: a member that comes twice,
// and a name that is written with an escape.
func parse(b []byte) (m message, err error) {
	var seen struct{ id, method, params, answer bool }
	first := func(have *bool) {
		if *have {
			err = errTwice
		}
		*have = true
	}
	members := jsonscan.Open(b)
	for name, value, ok := members.Next(); ok && err == nil; name, value, ok = members.Next() {
		switch string(name) {
		case "id":
			first(&seen.id)
			m.id = value
		case "method":
			first(&seen.method)
			m.method, err = methodName(value, err)
		case "params":
			first(&seen.params)
			if m.params = value; err == nil && value[0] != '{' && string(value) != "null" {
				err = errPlaces
			}
		case "result", "error":
			seen.answer = true
		default:
			if bytes.IndexByte(name, '\\') >= 0 {
				err = errNoMessage
			}
		}
	}
	switch {
	case err != nil:
		return m, err
	case members.Err() != nil, !seen.method && (!seen.id || !seen.answer), !identifies(m.id):
		return m, errNoMessage
	}
	return m, nil
}

func methodName(value []byte, twice error) (string, error) {
	if twice != nil {
		return "", twice
	}
	name, err := jsonscan.Text(value)
	if err != nil || len(name) == 0 {
		return "", errNoMessage
	}
	return string(name), nil
}

// identifies accepts the ids that codex accepts, strings and whole numbers, and no id.
func identifies(id []byte) bool {
	if len(id) == 0 {
		return true
	}
	if id[0] == '"' {
		return len(id) <= 1024
	}
	digits := bytes.TrimPrefix(id, []byte("-"))
	return len(digits) > 0 && len(digits) < 20 && len(bytes.Trim(digits, "0123456789")) == 0
}

// member is the value of a member of an object, nil for a missing one. The last one of that name counts.
func member(object []byte, want string) (found []byte) {
	members := jsonscan.Open(object)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		if string(name) == want {
			found = value
		}
	}
	return found
}

// textMember is the text of a member, empty for a missing member or another value.
func textMember(object []byte, want string) string {
	value := member(object, want)
	if value == nil {
		return ""
	}
	text, _ := jsonscan.Text(value)
	return string(text)
}
