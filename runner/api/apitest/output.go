package apitest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/coder/websocket"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
)

// logs serves the WebSocket alone.
func (d *Daemon) logs(w http.ResponseWriter, r *http.Request) {
	var of *Command
	d.with(w, r, func(s *session) {
		if n, _ := strconv.Atoi(r.PathValue("n")); n <= len(s.commands) {
			of = s.commands[n-1]
		} else {
			refuse(w, wire.NotFound, "the session has no such command", "show the session")
		}
	})
	if of == nil {
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // the client may be gone
	ctx := ws.CloseRead(r.Context())
	offset, _ := strconv.ParseInt(r.FormValue("since_offset"), 10, 64)
	for {
		d.mu.Lock()
		chunks, changed, state, size := of.from(offset), d.changed, of.state, of.size
		d.mu.Unlock()
		for _, chunk := range chunks {
			offset = chunk.End()
			if ws.Write(ctx, websocket.MessageBinary, wire.AppendChunk(nil, chunk)) != nil {
				return
			}
		}
		if state.State == wire.CommandEnded || r.FormValue("follow") != "true" {
			text, _ := json.Marshal(wire.LogEnd{Offset: size, Command: state})
			if ws.Write(ctx, websocket.MessageText, text) == nil {
				_ = ws.Close(websocket.StatusNormalClosure, "")
			}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// from returns the output from an offset on. Daemon.mu is held.
func (c *Command) from(offset int64) []logs.Chunk {
	var rest []logs.Chunk
	for _, chunk := range c.chunks {
		if chunk.End() <= offset {
			continue
		}
		skip := max(0, offset-chunk.Offset)
		chunk.Data, chunk.Offset = chunk.Data[skip:], chunk.Offset+skip
		rest = append(rest, chunk)
	}
	return rest
}

func (d *Daemon) artifacts(w http.ResponseWriter, r *http.Request) {
	d.with(w, r, func(s *session) {
		reply(w, http.StatusOK, wire.Artifacts{Artifacts: append([]wire.Artifact{}, s.artifacts...)})
	})
}

func (d *Daemon) artifact(w http.ResponseWriter, r *http.Request) {
	d.with(w, r, func(s *session) {
		i, _ := strconv.Atoi(r.PathValue("artifact"))
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte(s.contents[i-1])) // the client may be gone
	})
}
