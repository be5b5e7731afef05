package notify

import (
	"bytes"
	"unicode/utf8"
)

// maxLine is the longest line that is passed on in one piece, in bytes and without
// its end.
const maxLine = 64 << 10

// lineWriter passes lines on with their ends, and a line of more than maxLine in
// pieces. The pieces are the bytes that were written. It belongs to one goroutine at
// a time.
type lineWriter struct {
	each func(piece string)
	rest []byte // of a line whose end has not been written; maxLine at most
}

// Write implements io.Writer and never fails: what a program says of itself must
// not stop it.
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

// firstPiece is the size of the piece that b begins with; 0 while that may still
// grow. A piece ends between two characters, as the journal shows others as binary.
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
	return maxLine // this is no UTF-8
}

// flush passes on what there is of a line.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.each(string(w.rest))
	}
	w.rest = w.rest[:0]
}
