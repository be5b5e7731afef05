package openai

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// MaxElements bounds the names and values of a body. They take a hundred times as much
// memory decoded, and a microsecond each. 10,000 messages have some 100,000, and 500
// tools as many.
const MaxElements = 500_000

// Weight is what a body holds, before anything of it is decoded.
type Weight struct {
	Elements int64  // names and values, those inside others included
	Items    int64  // those of the lists in the body: messages, items of the input, tools
	Growth   int64  // bytes by which the body may grow as it is made valid UTF-8, or quoted in words
	Model    string // empty: there is none, or it is written with escapes
	Choices  int64  // n of a chat; 0: there is none
}

// Weigh finds the weight of a body in one pass, without a copy of it. It does not check
// the body: if that is not JSON, the weight means nothing.
func Weigh(body []byte) (w Weight) {
	// an escape in a schema that goes on in words is escaped again
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
				top.take(body[i:end], &w)
			}
			i = end - 1
		}
	}
	return w
}

// itemDepth is how deep the items of the lists in a body are.
const itemDepth = 3

// member is the member of the body at which Weigh is.
type member struct {
	name  []byte // with its quotes
	value bool   // the value follows, and not a name
}

func (m *member) take(text []byte, w *Weight) {
	switch {
	case !m.value:
		m.name = text
	case string(m.name) == `"model"` && len(text) > 1 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0:
		w.Model = string(text[1:min(len(text)-1, maxModelName+2)])
	case string(m.name) == `"n"`:
		w.Choices, _ = strconv.ParseInt(string(text[:min(len(text), 20)]), 10, 64)
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
