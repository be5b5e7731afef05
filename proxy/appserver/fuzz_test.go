package appserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
)

// FuzzIncoming feeds frames to a connection with a running turn.
func FuzzIncoming(f *testing.F) {
	f.Add([]byte(`{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"d"}}`))
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Add([]byte(`{"id":1,"method":"item/tool/call"}`))
	ws := socket(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		c := newConn(ws, &cork{}, Options{}.withDefaults())
		turn := c.newTurn("th", nil)
		turn.box.turnID = "tu"
		if m, err := parseIncoming(frame); err == nil {
			_ = c.handle(m)
		}
		// Take what there is and no more.
		for n, ok, _ := turn.take(); ok; n, ok, _ = turn.take() {
			for _, e := range turn.transcript.take(n) {
				if done, is := e.(TurnCompleted); is && done.Status == TurnFailed && done.Err == nil {
					t.Fatal("failed without an error")
				}
			}
		}
	})
}

// FuzzTranscript feeds two notifications of the same thread, as the second may
// meet what the first has left.
func FuzzTranscript(f *testing.F) {
	f.Add("item/agentMessage/delta", []byte(`{"itemId":"i","delta":"d"}`), "item/completed", []byte(`{"item":{"type":"agentMessage","id":"i","text":"dd"}}`))
	f.Add("item/reasoning/summaryTextDelta", []byte(`{"itemId":"i","delta":"d"}`), "error", []byte(`{"willRetry":true}`))
	f.Add("turn/completed", []byte(`{"turn":{"status":"failed"}}`), "thread/tokenUsage/updated", []byte(`{"tokenUsage":{"total":{"inputTokens":1}}}`))
	f.Fuzz(func(t *testing.T, method1 string, params1 []byte, method2 string, params2 []byte) {
		transcript := newTranscript(nil)
		transcript.add(Notification{method1, params1})
		transcript.add(Notification{method2, params2})
	})
}

// socket is an open WebSocket whose other end says nothing.
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
	ws, _, err := websocket.Dial(context.Background(), "ws://peer/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
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
