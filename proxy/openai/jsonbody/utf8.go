package jsonbody

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// ValidUTF8 replaces, in place, the bytes of a body that codex does not accept where they are forwarded unchanged:
// codex 0.169 closes its connection, with all turns, at bytes that are not UTF-8, and never answers a request with half
// of a surrogate pair. Both become U+FFFD, as in encoding/json.
func ValidUTF8(body []byte) []byte {
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	replaceLoneSurrogates(body)
	return body
}

// replaceLoneSurrogates overwrites each escaped half of a surrogate pair without its other half.
func replaceLoneSurrogates(b []byte) {
	n := bytes.IndexByte(b, '\\')
	// Escapes lie close together where there are any: a search for the next one takes longer than the way to it.
	for n >= 0 && n+1 < len(b) {
		switch {
		case b[n] != '\\':
			n++
		case b[n+1] != 'u':
			n += 2
		case isSurrogate(b[n:], "89abAB") && isSurrogate(b[n+6:], "cdefCDEF"):
			n += 12
		case isSurrogate(b[n:], "89abcdefABCDEF"):
			n += copy(b[n:], `\ufffd`)
		default:
			n += 2
		}
	}
}

// isSurrogate reports whether b begins with an escaped surrogate with its second digit in second.
func isSurrogate(b []byte, second string) bool {
	const hex = "0123456789abcdefABCDEF"
	return len(b) >= 6 && b[0] == '\\' && b[1] == 'u' && (b[2] == 'd' || b[2] == 'D') &&
		strings.IndexByte(second, b[3]) >= 0 &&
		strings.IndexByte(hex, b[4]) >= 0 && strings.IndexByte(hex, b[5]) >= 0
}
