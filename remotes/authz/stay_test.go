package authz

import (
	"context"
	"encoding/json"
	"fmt"

	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codex drops a request whose connection closes before it has answered, so the proxy keeps the connection until then,
// and until Leaving returns, however its client ends: with a close frame, with the end of its process, or while the
// proxy records the request.
func TestRequestsOutliveTheirClient(t *testing.T) {
	for name, leave := range map[string]func(*websocket.Conn){
		"by a close frame": func(ws *websocket.Conn) { go func() { _ = ws.Close(websocket.StatusNormalClosure, "") }() },
		"by its end":       func(ws *websocket.Conn) { _ = ws.CloseNow() },
	} {
		for _, during := range []string{"passing", "codex"} {
			t.Run(name+" during "+during, func(t *testing.T) {
				var client *websocket.Conn
				detached, outcome := make(chan Session, 1), make(chan error, 1)
				var left atomic.Bool
				leaving := func(context.Context) {
					<-time.After(50 * time.Millisecond) // a close would have come
					left.Store(true)
				}
				p := &Proxy{Leaving: leaving, Detached: func(s Session) { detached <- s }, Forwarding: func(_ Session, r Request) {
					if during == "passing" && r.Method == "turn/start" {
						leave(client)
					}
				}}
				owners, _ := open(t, p, codex(t, func(ctx context.Context, ws *websocket.Conn, _ *http.Request) {
					for {
						_, b, err := ws.Read(ctx)
						if err != nil {
							outcome <- err
							return
						}
						var m struct {
							ID     json.RawMessage
							Method string
						}
						require.NoError(t, json.Unmarshal(b, &m))
						if m.Method == "turn/start" {
							if during == "codex" {
								leave(client)
							}
							// What a client that is gone would read.
							_ = ws.Write(ctx, websocket.MessageText, []byte(`{"method":"turn/started","params":{}}`))
							closed := ws.CloseRead(ctx)
							select {
							case <-closed.Done():
								outcome <- fmt.Errorf("the connection closes before the answer")
								return
							case <-time.After(100 * time.Millisecond): // a close would have come
							}
							_ = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":%s,"result":{}}`, m.ID))
							<-closed.Done()
							if left.Load() {
								outcome <- nil
							} else {
								outcome <- fmt.Errorf("the connection closes before Leaving returns")
							}
							return
						}
						_ = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":%s,"result":{}}`, m.ID))
					}
				}))
				client, _ = dial(t, owners)
				say(t, client, `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"tester","version":"1"}}}`)
				hear(t, client)
				say(t, client, `{"id":1,"method":"turn/start","params":{"threadId":"T","input":[]}}`)
				require.NoError(t, <-outcome)
				assert.EqualValues(t, 2, (<-detached).Requests)
			})
		}
	}
}
