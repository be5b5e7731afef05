package jsonbody

import (
	"bytes"
	"unicode/utf8"

	"codex-proxy/proxy/openai"
)

// MaxElements bounds the names and values of a body. Decoded they take up to a hundred times as much memory, and a
// microsecond each. 10,000 messages have some 100,000, and so have 500 tools.
const MaxElements = 500_000

// Weight is the number and kind of elements of a body, before it is decoded.
type Weight struct {
	Elements int64  // names and values, nested ones included
	Items    int64  // of the lists in the body: messages, items of the input, tools
	Growth   int64  // by how many bytes the body may grow when it is made valid UTF-8, or quoted in an instruction
	Model    string // empty if the body names no model, or the name has escapes
	Choices  int64  // n of a chat; 0 if it is not set
}

// Weigh returns the weight of a body in one pass, without a copy. It does not validate the body: if that is not JSON,
// the weight means nothing.
func Weigh(body []byte) (w Weight) {
	// an escape in a schema in an instruction is escaped again
	w.Growth = 2 * int64(bytes.Count(body, []byte{'\\'}))
	if !utf8.Valid(body) {
		w.Growth += 2 * int64(len(body))
	}
	var top member
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case ' ', '\n', '\t', '\r':
		case ',':
			top.value = top.value && depth != 1
		case ':':
			top.value = top.value || depth == 1
		case '{', '[':
			depth++
			w.Elements++
			if depth == itemDepth {
				w.Items++
			}
		case '}', ']':
			depth--
		default:
			w.Elements++
			end := i + scalarEnd(body[i:])
			if depth == 1 {
				top.record(body[i:end], &w)
			}
			i = end - 1
		}
	}
	return w
}

// itemDepth is the depth of the items of the lists in a body.
const itemDepth = 3

// member is the current member of the body.
type member struct {
	name  []byte // with its quotes
	value bool   // its value follows
}

// record stores a name, or a value in w.
func (m *member) record(text []byte, w *Weight) {
	switch {
	case !m.value:
		m.name = text
	case string(m.name) == `"model"` && len(text) > 1 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0:
		w.Model = string(text[1:min(len(text)-1, openai.MaxModelName+2)])
	case string(m.name) == `"n"`:
		w.Choices, _ = wholeNumber(string(text))
	}
}

// scalarEnd is the length of the string, number or word with which b begins.
func scalarEnd(b []byte) int {
	if b[0] == '"' {
		return stringEnd(b)
	}
	for n := 1; n < len(b); n++ {
		switch b[n] {
		case ',', ':', ']', '}', '[', '{', '"', ' ', '\n', '\t', '\r':
			return n
		}
	}
	return len(b)
}
