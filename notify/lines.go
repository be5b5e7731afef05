package notify

import (
	"bytes"
	"unicode/utf8"
)

// maxLine is the length of the longest line that stays in one piece, in bytes and
// without its end.
const maxLine = 64 << 10

// lineWriter passes on lines with their ends, and a line of more than maxLine in
// pieces. The pieces together are the written bytes. It belongs to one goroutine at
// a time.
type lineWriter struct {
	each func(piece string)
	rest []byte // of a line without its end yet; maxLine at most
}

// Write implements io.Writer and never fails: a program must not stop because of its
// log.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	passed := 0
	for n := firstPiece(w.rest); n > 0; n = firstPiece(w.rest[passed:]) {
		w.each(string(w.rest[passed : passed+n]))
		passed += n
	}
	w.rest = append(w.rest[:0], w.rest[passed:]...)
	return len(p), nil
}

// firstPiece is the size of the first piece of b; 0 while that may still grow. A
// piece ends between two characters: the journal shows a cut character as binary.
func firstPiece(b []byte) int {
	if end := bytes.IndexByte(b[:min(len(b), maxLine+1)], '\n'); end >= 0 {
		return end + 1
	}
	if len(b) <= maxLine {
		return 0
	}
	for n := maxLine; n > maxLine-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return maxLine // not UTF-8
}

// flush passes on the rest of an unfinished line.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.each(string(w.rest))
	}
	w.rest = w.rest[:0]
}
