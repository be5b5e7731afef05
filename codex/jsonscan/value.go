package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// cutValue splits b after the value with which it begins. value is empty if the value has no end.
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

// stringEnd is the length of the string with which b begins, 0 if it has no end.
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

// Depth is how many arrays and objects of a valid JSON value lie within each other, at the deepest.
func Depth(value []byte) (deepest int) {
	depth := 0
	for n := 0; n < len(value); n++ {
		switch value[n] {
		case '"':
			n += max(stringEnd(value[n:]), 1) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// containerEnd is the length of the object or array with which b begins, 0 if it has no end.
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

// Text decodes a value that must be a string or null. The text may lie in v.
func Text(v []byte) ([]byte, error) {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' && bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return v[1 : len(v)-1], nil
	}
	var s string
	err := json.Unmarshal(v, &s)
	return []byte(s), err
}

// ScanText stores the text of a string in into; null is the empty text.
func ScanText(value []byte, into *string) error {
	b, err := Text(value)
	*into = string(b)
	return err
}

// ScanInt stores a whole number in into; null leaves into as it is.
func ScanInt(value []byte, into *int64) (err error) {
	if string(value) != "null" {
		*into, err = strconv.ParseInt(string(value), 10, 64)
	}
	return err
}
