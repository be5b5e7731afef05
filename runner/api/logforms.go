package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

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
	if err := w.control.SetWriteDeadline(time.Now().Add(writeBound)); err != nil && !errors.Is(err, http.ErrNotSupported) {
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

// socket serves a log on a WebSocket.
func (l *logOf) socket(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil //nolint:nilerr // Accept has answered
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed, or lost
	ctx = conn.CloseRead(ctx)
	if !l.follow {
		if err := l.open(ctx); err != nil {
			return nil //nolint:nilerr // the connection ends without the end of the log
		}
		defer l.close()
	}
	if err := l.copy(ctx, &socket{ctx: ctx, conn: conn}); err != nil {
		l.server.Logger.Debug("a log was not read to its end", "session", l.id, "command", l.number, "error", err)
		_ = conn.Close(websocket.StatusTryAgainLater, "connect again and go on")
		return nil
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return nil
}

// socket sends chunks as binary messages.
type socket struct {
	ctx    context.Context //nolint:containedctx // of the request, whose goroutine alone has the socket
	conn   *websocket.Conn
	reader *logs.Reader
	buffer []byte
}

func (s *socket) open(r *logs.Reader) { s.reader = r }

func (s *socket) next() error {
	chunk, err := s.reader.Next()
	if err != nil {
		return err
	}
	s.buffer = wire.AppendChunk(s.buffer[:0], chunk)
	return s.write(websocket.MessageBinary, s.buffer)
}

func (s *socket) write(kind websocket.MessageType, message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeBound)
	defer cancel()
	return s.conn.Write(ctx, kind, message)
}

func (s *socket) flush() error { return nil }

func (s *socket) end(e wire.LogEnd) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.write(websocket.MessageText, text)
}
