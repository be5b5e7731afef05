package jsonscan

import "errors"

// ErrSyntax is the error of an Object that is not JSON.
var ErrSyntax = errors.New("not valid JSON")

// Object reads the members of a JSON object one after another. It examines a value only as far as needed to find
// its end, so an invalid value may pass; Text, Int and Unmarshal report it. Names and values lie in the bytes of
// the object. One goroutine may use it.
type Object struct {
	rest   []byte // from the next name, or its value, on
	nested bool   // the object is a value inside another one: bytes may follow it
	tail   []byte // the bytes that follow
	err    error
}

// Open starts to read b, which must be an object.
func Open(b []byte) (o Object) {
	o.open(b)
	return o
}

func (o *Object) open(b []byte) {
	b = skipSpace(b)
	if len(b) == 0 || b[0] != '{' {
		o.err = errors.New("not a JSON object")
		return
	}
	b = skipSpace(b[1:])
	switch {
	case len(b) == 0:
		o.err = ErrSyntax
	case b[0] == '}':
		o.end(b[1:])
	default:
		o.rest = b
	}
}

// end records the end of the object. Only space may follow an object that is not nested.
func (o *Object) end(tail []byte) {
	o.rest, o.tail = nil, tail
	if !o.nested && len(skipSpace(tail)) > 0 {
		o.err = ErrSyntax
	}
}

// Err is nil until the object turns out to be no valid JSON.
func (o *Object) Err() error { return o.err }

// Next returns the next member: its name as written between the quotes, and its value. ok is false after the last
// member and after an error.
func (o *Object) Next() (name, value []byte, ok bool) {
	if name, ok = o.Name(); ok {
		value, ok = o.Value()
	}
	return name, value, ok
}

// Name returns the name of the next member. The caller reads its value with Value or Fields.
func (o *Object) Name() (name []byte, ok bool) {
	if len(o.rest) == 0 || o.err != nil {
		return nil, false
	}
	name, rest := cutValue(o.rest)
	rest = skipSpace(rest)
	if len(name) < 2 || name[0] != '"' || len(rest) == 0 || rest[0] != ':' {
		o.err = ErrSyntax
		return nil, false
	}
	o.rest = skipSpace(rest[1:])
	return name[1 : len(name)-1], true
}

// Value returns the value of the member that Name has returned.
func (o *Object) Value() (value []byte, ok bool) {
	value, rest := cutValue(o.rest)
	if len(value) == 0 {
		o.err = ErrSyntax
	}
	o.skipComma(rest)
	return value, o.err == nil
}

// Fields is Value that also stores the values of the members with these names in fields, in the same pass. If the
// value is no object, fields stays as it is.
func (o *Object) Fields(names []string, fields [][]byte) (value []byte, ok bool) {
	if len(o.rest) == 0 || o.rest[0] != '{' {
		return o.Value()
	}
	inner := Object{nested: true}
	inner.open(o.rest)
	for name, v, ok := inner.Next(); ok; name, v, ok = inner.Next() {
		for i := range names {
			if string(name) == names[i] {
				fields[i] = v
				break
			}
		}
	}
	value, o.err = o.rest[:len(o.rest)-len(inner.tail)], inner.err
	o.skipComma(inner.tail)
	return value, o.err == nil
}

// skipComma moves from the end of a value to the next name, or ends the object.
func (o *Object) skipComma(rest []byte) {
	rest = skipSpace(rest)
	switch {
	case o.err != nil:
	case len(rest) == 0:
		o.err = ErrSyntax
	case rest[0] == '}':
		o.end(rest[1:])
	case rest[0] == ',':
		o.rest = skipSpace(rest[1:])
		if len(o.rest) == 0 {
			o.err = ErrSyntax
		}
	default:
		o.err = ErrSyntax
	}
}
