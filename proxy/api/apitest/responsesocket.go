package apitest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// Socket is a client's end of a WebSocket.
type Socket struct {
	*websocket.Conn
	t testing.TB
}

// Socket opens a WebSocket of /v1/responses.
func (r *Rig) Socket(t testing.TB, header ...string) *Socket {
	t.Helper()
	conn, _, err := r.Upgrade(t, header...)
	require.NoError(t, err)
	conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &Socket{conn, t}
}

// Upgrade asks for a WebSocket of /v1/responses.
func (r *Rig) Upgrade(t testing.TB, header ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	return websocket.Dial(ctx, r.URL+"/v1/responses",
		&websocket.DialOptions{HTTPHeader: h, HTTPClient: &http.Client{Transport: r.Client.Transport}})
}

// Say sends a message.
func (k *Socket) Say(message string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), Bound)
	defer cancel()
	require.NoError(k.t, k.Write(ctx, websocket.MessageText, []byte(message)))
}

// Hear reads a message.
func (k *Socket) Hear() Seen {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), Bound)
	defer cancel()
	_, data, err := k.Read(ctx)
	require.NoError(k.t, err)
	return Read[Seen](k.t, string(data))
}

// Response hears one response to its end.
func (k *Socket) Response() Seen {
	k.t.Helper()
	for n := 0; ; n++ {
		e := k.Hear()
		require.Equal(k.t, n, e.SequenceNumber)
		switch e.Type {
		case "response.completed", "response.failed", "response.incomplete", "error":
			return e
		}
	}
}

// Closed hears nothing but the end of the connection.
func (k *Socket) Closed() websocket.StatusCode {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), Bound)
	defer cancel()
	_, data, err := k.Read(ctx)
	require.Error(k.t, err, "%s", data)
	return websocket.CloseStatus(err)
}

// Create is the message that asks for a response.
func Create(extra, input string) string {
	return `{"type":"response.create",` + strings.TrimPrefix(Asked(extra, input), "{")
}
