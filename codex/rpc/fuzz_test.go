package rpc

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
)

// FuzzMessage feeds frames to a connection that waits for two replies.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"method":"item/agentMessage/delta","params":{"threadId":"th","delta":"d"}}`))
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Add([]byte(`{"id":2,"error":{"code":-32001,"message":"m"}}`))
	f.Add([]byte(`{"id":1,"method":"item/tool/call"}`))
	ws := socket(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		options := Options{Fields: FieldNames{"threadId", "delta"}}.withDefaults()
		c := newConn(ws, &writeBuffer{}, options)
		c.opts.OnRequest = func(m Message) error { return c.Refuse(m.ID, &Error{}) }
		waiting := &pending{method: "m", reply: make(chan Reply, 1)}
		if _, err := c.register(waiting); err != nil {
			t.Fatal(err)
		}
		if _, err := c.register(&pending{method: "m", late: func(r Reply) { _ = r.Decode(&Trace{}) }}); err != nil {
			t.Fatal(err)
		}
		if m, err := Parse(frame, &options.Fields); err == nil {
			_ = c.handle(m)
		}
		select {
		case r := <-waiting.reply:
			_ = r.Decode(&Trace{})
		default:
		}
	})
}

// socket is an open WebSocket whose other end sends nothing.
func socket(f *testing.F) *websocket.Conn {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		<-done
		_ = ws.CloseNow()
	}))
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server.Listener.Addr().String())
	}}
	ws, _, err := websocket.Dial(context.Background(), "ws://peer/",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = ws.CloseNow()
		close(done)
		server.Close()
	})
	return ws
}
