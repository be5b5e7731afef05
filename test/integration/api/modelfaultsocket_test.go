package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"codex-proxy/test/bed"
	"codex-proxy/test/contract"
)

// putOnSocket sends a request on a WebSocket of its own, and returns the messages up to the end of the response as a
// stream, or an event error as an answer with its status.
func putOnSocket(b *bed.Bed, ctx context.Context, api contract.API, q contract.Question) (r reply) {
	ctx, cancel := context.WithTimeout(ctx, bed.Bound)
	defer cancel()
	body, err := api.Body(q)
	if err != nil {
		return reply{err: err}
	}
	conn, _, err := websocket.Dial(ctx, strings.Replace(bed.Base, "http", "ws", 1)+api.Path,
		&websocket.DialOptions{HTTPClient: b.HTTP})
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	create := slices.Concat([]byte(`{"type":"response.create",`), bytes.TrimPrefix(body, []byte("{")))
	if err := conn.Write(ctx, websocket.MessageText, create); err != nil {
		return reply{err: err}
	}
	return receive(ctx, conn)
}

// receive reads one response.
func receive(ctx context.Context, conn *websocket.Conn) reply {
	r := reply{status: http.StatusOK, header: http.Header{}}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return reply{err: err}
		}
		var e struct {
			Type    string
			Status  int
			Error   json.RawMessage
			Headers map[string]string
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return reply{err: err}
		}
		r.body = fmt.Appendf(r.body, "event: %s\ndata: %s\n\n", e.Type, data)
		switch e.Type {
		case "error":
			for name, value := range e.Headers {
				r.header.Set(name, value)
			}
			r.status, r.body = e.Status, fmt.Appendf(nil, `{"error":%s}`, e.Error)
			return r
		case "response.completed", "response.incomplete", "response.failed":
			return r
		}
	}
}
