package openai

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// tame makes of a body what codex takes, wherever parts of it go on as they are:
// codex 0.169 hangs up on everybody when it meets bytes that are not UTF-8, and
// never answers a request that has half of a surrogate pair. Both become U+FFFD, as
// with encoding/json; the body is changed in place.
func tame(body []byte) []byte {
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if bytes.Contains(body, []byte(`\ud`)) || bytes.Contains(body, []byte(`\uD`)) {
		replaceHalves(body)
	}
	return body
}

// replaceHalves overwrites each escaped half of a surrogate pair that is alone.
func replaceHalves(b []byte) {
	for n := 0; ; {
		next := bytes.IndexByte(b[n:], '\\')
		if next < 0 {
			return
		}
		n += next
		switch {
		case isHalf(b[n:], "89abAB") && isHalf(b[n+6:], "cdefCDEF"):
			n += 12
		case isHalf(b[n:], "89abcdefABCDEF"):
			n += copy(b[n:], `\ufffd`)
		default:
			n = min(n+2, len(b))
		}
	}
}

// isHalf tells an escaped surrogate by its second digit.
func isHalf(b []byte, second string) bool {
	const hex = "0123456789abcdefABCDEF"
	return len(b) >= 6 && b[0] == '\\' && b[1] == 'u' && (b[2] == 'd' || b[2] == 'D') &&
		strings.IndexByte(second, b[3]) >= 0 &&
		strings.IndexByte(hex, b[4]) >= 0 && strings.IndexByte(hex, b[5]) >= 0
}
