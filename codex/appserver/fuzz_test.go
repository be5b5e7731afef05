package appserver

import (
	"testing"

	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
)

// FuzzIncoming feeds frames to a connection with a running turn.
func FuzzIncoming(f *testing.F) {
	f.Add([]byte(
		`{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"d"}}`))
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Add([]byte(`{"id":1,"method":"item/tool/call"}`))
	conn, err := Dial(f.Context(), appservertest.Start(f, &appservertest.Server{}), Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close(nil) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		c := newConn(Options{})
		c.Conn = conn.Conn
		turn := c.newTurn("th", nil)
		turn.box.turnID = "tu"
		m, err := rpc.Parse(frame, &delivery.Fields)
		switch {
		case err != nil || m.Method == "":
		case len(m.ID) > 0:
			_ = c.answer(m)
		default:
			c.route(m)
		}
		// Pop all entries without waiting.
		for n, ok, _ := turn.pop(); ok; n, ok, _ = turn.pop() {
			for _, e := range turn.transcript.eventsOf(n) {
				if done, is := e.(TurnCompleted); is && done.Status == TurnFailed && done.Err == nil {
					t.Fatal("failed without an error")
				}
			}
		}
	})
}

// FuzzTranscript feeds two notifications of the same thread: the first changes the state that the second meets.
func FuzzTranscript(f *testing.F) {
	f.Add("item/agentMessage/delta", []byte(`{"itemId":"i","delta":"d"}`), "item/completed",
		[]byte(`{"item":{"type":"agentMessage","id":"i","text":"dd"}}`))
	f.Add("item/reasoning/summaryTextDelta", []byte(`{"itemId":"i","delta":"d"}`), "error",
		[]byte(`{"willRetry":true}`))
	f.Add("turn/completed", []byte(`{"turn":{"status":"failed"}}`), "thread/tokenUsage/updated",
		[]byte(`{"tokenUsage":{"total":{"inputTokens":1}}}`))
	f.Fuzz(func(t *testing.T, method1 string, params1 []byte, method2 string, params2 []byte) {
		transcript := newTranscript(nil)
		transcript.add(Notification{method1, params1})
		transcript.add(Notification{method2, params2})
	})
}
