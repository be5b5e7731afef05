package notify

import "bytes"

// maxLine is where a line is cut that does not end.
const maxLine = 64 << 10

// lineWriter passes lines on. It belongs to one goroutine at a time.
type lineWriter struct {
	each func(line string)
	rest []byte
}

// Write implements io.Writer and never fails: what a program says of itself must
// not stop it.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			break
		}
		w.rest = append(w.rest, p[:end]...)
		w.flush()
		p = p[end+1:]
	}
	w.rest = append(w.rest, p...)
	for len(w.rest) >= maxLine {
		over := bytes.Clone(w.rest[maxLine:])
		w.rest = w.rest[:maxLine]
		w.flush()
		w.rest = over
	}
	return n, nil
}

// flush passes on what there is of a line.
func (w *lineWriter) flush() {
	line := w.rest[:min(len(w.rest), maxLine)]
	if len(line) > 0 {
		w.each(string(line))
	}
	w.rest = w.rest[:0]
}
