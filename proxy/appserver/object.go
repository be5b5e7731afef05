package appserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// object reads the members of a JSON object one after another, in one pass and
// without copying: of most messages we need two or three names, and some carry a
// whole history that nobody here wants. It looks at a value only as closely as
// it takes to find its end. Whoever takes the value finds out what it is.
type object struct {
	rest  []byte // from the next name, or its value, on
	inner bool   // something may follow
	tail  []byte // what follows
	err   error
}

var errNotJSON = errors.New("not valid JSON")

// openObject is an error by next if b is no object.
func openObject(b []byte) (o object) {
	o.open(b)
	return o
}

func (o *object) open(b []byte) {
	b = skipSpace(b)
	if len(b) == 0 || b[0] != '{' {
		o.err = errors.New("not a JSON object")
		return
	}
	b = skipSpace(b[1:])
	switch {
	case len(b) == 0:
		o.err = errNotJSON
	case b[0] == '}':
		o.end(b[1:])
	default:
		o.rest = b
	}
}

// end is called at the end of the object. Mostly nothing must follow.
func (o *object) end(tail []byte) {
	o.rest, o.tail = nil, tail
	if !o.inner && len(skipSpace(tail)) > 0 {
		o.err = errNotJSON
	}
}

// next is the next member: its name, between the quotes, and its value. Both lie
// in the bytes of the object. After the last one, or an error in o.err, ok is false.
func (o *object) next() (name, value []byte, ok bool) {
	if name, ok = o.name(); ok {
		value, ok = o.value()
	}
	return name, value, ok
}

// name is the first half of next; what follows is value or parameters.
func (o *object) name() (name []byte, ok bool) {
	if len(o.rest) == 0 || o.err != nil {
		return nil, false
	}
	name, rest := cutValue(o.rest)
	rest = skipSpace(rest)
	if len(name) < 2 || name[0] != '"' || len(rest) == 0 || rest[0] != ':' {
		o.err = errNotJSON
		return nil, false
	}
	o.rest = skipSpace(rest[1:])
	return name[1 : len(name)-1], true
}

func (o *object) value() (value []byte, ok bool) {
	value, rest := cutValue(o.rest)
	if len(value) == 0 {
		o.err = errNotJSON
	}
	o.goOn(rest)
	return value, o.err == nil
}

// goOn goes to the next name, behind a value.
func (o *object) goOn(rest []byte) {
	rest = skipSpace(rest)
	switch {
	case o.err != nil:
	case len(rest) == 0:
		o.err = errNotJSON
	case rest[0] == '}':
		o.end(rest[1:])
	case rest[0] == ',':
		o.rest = skipSpace(rest[1:])
		if len(o.rest) == 0 {
			o.err = errNotJSON
		}
	default:
		o.err = errNotJSON
	}
}

// parts are the members of a notification's parameters that it takes to deliver
// it, as JSON. Not there is nil.
type parts struct{ threadID, turnID, turn, itemID, item, delta []byte }

// parameters is value that picks the parts out in the same pass.
func (o *object) parameters() (value []byte, p parts, ok bool) {
	if len(o.rest) == 0 || o.rest[0] != '{' {
		value, ok = o.value()
		return value, p, ok
	}
	params := object{inner: true}
	params.open(o.rest)
	for name, v, ok := params.next(); ok; name, v, ok = params.next() {
		switch string(name) {
		case "threadId":
			p.threadID = v
		case "turnId":
			p.turnID = v
		case "turn":
			p.turn = v
		case "itemId":
			p.itemID = v
		case "item":
			p.item = v
		case "delta":
			p.delta = v
		}
	}
	value, o.err = o.rest[:len(o.rest)-len(params.tail)], params.err
	o.goOn(params.tail)
	return value, p, o.err == nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// cutValue divides b behind the value with which it begins; value is empty if
// that has no end.
func cutValue(b []byte) (value, rest []byte) {
	n := 0
	switch {
	case len(b) == 0:
	case b[0] == '"':
		n = stringEnd(b)
	case b[0] == '{' || b[0] == '[':
		n = containerEnd(b)
	default:
		for n < len(b) && strings.IndexByte(",]} \n\t\r", b[n]) < 0 {
			n++
		}
	}
	return b[:n], b[n:]
}

// stringEnd is the length of the string with which b begins, 0 without an end.
func stringEnd(b []byte) int {
	for n := 1; n < len(b); {
		quote := bytes.IndexByte(b[n:], '"')
		if quote < 0 {
			return 0
		}
		n += quote + 1
		escapes := 0
		for b[n-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return n
		}
	}
	return 0
}

// containerEnd is the same for an object or array.
func containerEnd(b []byte) int {
	depth := 0
	for n := 0; n < len(b); n++ {
		switch b[n] {
		case '"':
			end := stringEnd(b[n:])
			if end == 0 {
				return 0
			}
			n += end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return n + 1
			}
		}
	}
	return 0
}

// text is the text of a value, which must be a string or null. It may lie in v.
func text(v []byte) ([]byte, error) {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' && bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return v[1 : len(v)-1], nil
	}
	var s string
	err := json.Unmarshal(v, &s)
	return []byte(s), err
}
