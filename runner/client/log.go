package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
)

// Log is a request for the output of a command.
type Log struct {
	Session string
	Command int
	From    int64 // the offset to begin at, in bytes
	// Follow goes on until the command has ended. Without it, ReadLog ends at the present end of the output.
	Follow bool
	// Sink gets the chunks in their order, without a gap and none twice. Its data is valid until it returns. An error
	// ends ReadLog, which returns it.
	Sink func(logs.Chunk) error
	// Lost, unless nil, is called when the connection is lost, before it is made again.
	Lost func(error)
}

// ReadLog reads a log. If the connection is lost, or the daemon starts again, it connects again and goes on behind the
// last byte that Sink got; it returns the error of the last attempt after a minute of them.
func (c *Client) ReadLog(ctx context.Context, l Log) (wire.LogEnd, error) {
	r := logReader{client: c, log: l, next: l.From}
	err := c.again(ctx, func() (bool, error) {
		began, before := time.Now(), r.next
		err := r.read(ctx)
		if passing(err) && l.Lost != nil {
			l.Lost(err)
		}
		// A daemon that accepts connections but cannot send the log makes no progress.
		return r.next > before || time.Since(began) > lastPause, err
	})
	return r.end, err
}

// Wait returns the end of a command as ReadLog does, without its output.
func (c *Client) Wait(ctx context.Context, session string, command int) (wire.LogEnd, error) {
	return c.ReadLog(ctx, Log{Session: session, Command: command, From: math.MaxInt64, Follow: true})
}

// logReader reads one log over one connection after the other. It belongs to one goroutine.
type logReader struct {
	client *Client
	log    Log
	next   int64 // the offset behind the last byte that the sink got
	end    wire.LogEnd
	buffer bytes.Buffer
}

// read reads over one connection, until the end of the log.
func (r *logReader) read(ctx context.Context) error {
	ws, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer ws.CloseNow() //nolint:errcheck // the log has ended
	for {
		kind, err := r.message(ctx, ws)
		if err != nil {
			return r.client.explain(ctx, err)
		}
		if kind == websocket.MessageText {
			return r.finish()
		}
		if err := r.take(); err != nil {
			return err
		}
	}
}

func (r *logReader) dial(ctx context.Context) (*websocket.Conn, error) {
	url := fmt.Sprintf("ws://codex-runner/v1%s/logs?since_offset=%d&follow=%t",
		commandPath(r.log.Session, r.log.Command), r.next, r.log.Follow)
	ws, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient: &r.client.http, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		ws.SetReadLimit(wire.MaxBody)
		return ws, nil
	case res != nil && res.StatusCode >= http.StatusBadRequest:
		return nil, refusal(res)
	}
	return nil, r.client.explain(ctx, err)
}

// message reads one message into the buffer.
func (r *logReader) message(ctx context.Context, ws *websocket.Conn) (websocket.MessageType, error) {
	kind, message, err := ws.Reader(ctx)
	if err != nil {
		return 0, err
	}
	r.buffer.Reset()
	_, err = io.Copy(&r.buffer, message)
	return kind, err
}

// take passes the chunk in the buffer on.
func (r *logReader) take() error {
	chunk, err := wire.ParseChunk(r.buffer.Bytes())
	switch {
	case err != nil:
		return err
	case chunk.Offset != r.next:
		return fmt.Errorf("codex-runner sent the output from offset %d on instead of %d", chunk.Offset, r.next)
	}
	r.next = chunk.End()
	return r.log.Sink(chunk)
}

// finish reads the end in the buffer.
func (r *logReader) finish() error {
	if err := json.Unmarshal(r.buffer.Bytes(), &r.end); err != nil {
		return fmt.Errorf("cannot read the end of the output: %w", err)
	}
	if !r.log.Follow {
		return nil // a command that runs may have written more meanwhile
	}
	if r.end.Offset > r.next {
		return fmt.Errorf("the output has %d bytes, and codex-runner sent %d", r.end.Offset, r.next)
	}
	if r.end.Command.Outcome == nil {
		return errors.New("codex-runner ended the output of a command that has not ended")
	}
	return nil
}
