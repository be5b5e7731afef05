package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
)

// writeBound bounds the time in which a client takes a part of a log. A slower one reconnects, and loses nothing.
const writeBound = time.Minute

// response is an HTTP response that is sent as it is made.
type response struct {
	http.ResponseWriter

	control *http.ResponseController
}

func newResponse(w http.ResponseWriter) response { return response{w, http.NewResponseController(w)} }

func (w response) send(p []byte) error {
	if err := w.control.SetWriteDeadline(time.Now().Add(writeBound)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := w.Write(p)
	return err
}

func (w response) flush() error { return w.control.Flush() }

// raw sends the bytes as they are.
type raw struct {
	response

	reader *logs.Reader
}

func (w *raw) open(r *logs.Reader) { w.reader = r }

func (w *raw) next() error {
	chunk, err := w.reader.Next()
	if err != nil {
		return err
	}
	return w.send(chunk.Data)
}

func (w *raw) end(wire.LogEnd) error { return nil }

// events sends lines as server-sent events (HTML standard, 9.2).
type events struct {
	response

	lines *logs.Lines
}

func (w *events) open(r *logs.Reader) { w.lines = logs.NewLines(r) }

func (w *events) next() error {
	l, err := w.lines.Next()
	if err != nil {
		return err
	}
	line := wire.Line{Time: l.Time, Stream: l.Stream, Offset: l.Offset, Newline: l.Newline}
	if utf8.Valid(l.Text) {
		line.Text = string(l.Text)
	} else {
		line.Bytes = l.Text
	}
	return w.event("line", l.End(), line)
}

func (w *events) end(e wire.LogEnd) error { return w.event("end", e.Offset, e) }

func (w *events) event(name string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return w.send(fmt.Appendf(nil, "event: %s\nid: %d\ndata: %s\n\n", name, id, text))
}
