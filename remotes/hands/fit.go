package hands

import (
	"unicode/utf8"
)

const (
	// fitOne bounds the only text of an answer, and fitEach each of two, in bytes of JSON: below authz.MostAnswer.
	fitOne, fitEach = 840 << 10, 420 << 10
	// cutMark ends a text that was cut.
	cutMark = "\n… the rest is left out …"
)

// fitted is a text that takes at most so many bytes as JSON: an output of escape sequences or of a binary takes six
// times its own.
func fitted(text string, room int) string {
	size, last := 0, 0
	for at, r := range text {
		if size <= room-len(cutMark)-2 {
			last = at
		}
		if size += encodedSize(r, text[at:]); size > room {
			return text[:last] + cutMark
		}
	}
	return text
}

// encodedSize is how many bytes the first character of a text takes as JSON.
func encodedSize(r rune, text string) int {
	const escaped, short = 6, 2
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
		return short
	case r < ' ' || r == '\u2028' || r == '\u2029':
		return escaped
	case r == utf8.RuneError:
		if _, size := utf8.DecodeRuneInString(text); size == 1 { // not valid
			return escaped
		}
	}
	return utf8.RuneLen(r)
}
