package hands

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/client"
)

// farBed plays an exec-server elsewhere with one session. It answers no request before it has all of a batch, as one
// at the end of a slow line.
type farBed struct {
	*Hands

	mu      sync.Mutex
	refuse  []string // how the next ones that ask for the session are refused
	batches int      // that it answers before it hangs up; negative: all
	runs    map[string]bool
}

const farSessionID = "s1"

func newFarBed(t *testing.T, processes int) *farBed {
	b := &farBed{batches: -1, runs: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer ws.CloseNow()
		b.serve(r.Context(), ws)
	}))
	t.Cleanup(server.Close)
	var err error
	b.Hands, err = New(Options{Mark: "codex-remote@build", Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Elsewhere: &Elsewhere{
		URL: strings.Replace(server.URL, "http", "ws", 1), Token: strings.Repeat("x", client.LeastToken)}})
	require.NoError(t, err)
	b.took.began(farSessionID)
	for i := range processes {
		id := fmt.Sprint("p", i)
		b.took.started(farSessionID, id)
		b.runs[id] = true
	}
	return b
}

func (b *farBed) serve(ctx context.Context, ws *websocket.Conn) {
	var batch []message
	for {
		var m message
		if wsjson.Read(ctx, ws, &m) != nil {
			return
		}
		var params struct {
			Session *string `json:"resumeSessionId"`
			Process string  `json:"processId"`
		}
		_ = json.Unmarshal(m.Params, &params)
		b.mu.Lock()
		switch {
		case m.Method == "initialize" && params.Session != nil && len(b.refuse) > 0:
			_ = wsjson.Write(ctx, ws, map[string]any{"id": m.ID, "error": map[string]any{"code": -32010, "message": b.refuse[0]}})
			b.refuse = b.refuse[1:]
		case m.Method == "initialize":
			_ = wsjson.Write(ctx, ws, map[string]any{"id": m.ID, "result": map[string]any{"sessionId": farSessionID,
				"executorVersion": "0.170.0", "capabilities": map[string]any{"a": 1, "b": map[string]bool{}}}})
		case m.Method == startMethod:
			_ = wsjson.Write(ctx, ws, map[string]any{"id": m.ID, "error": map[string]any{"code": -32603, "message": "no such program"}})
		case m.Method == terminateMethod || m.Method == "process/read":
			if m.Method == terminateMethod {
				delete(b.runs, params.Process)
			}
			if batch = append(batch, m); len(batch) < 2*min(endBatch, len(b.took.all()[0].Processes)) {
				break
			}
			if b.batches == 0 {
				b.mu.Unlock()
				return
			}
			b.batches--
			for _, m := range batch {
				_ = wsjson.Write(ctx, ws, map[string]any{"id": m.ID, "result": map[string]any{"exited": true, "nextSeq": 2}})
			}
			batch = nil
		}
		b.mu.Unlock()
	}
}

// The processes of an earlier codex end in few round trips, and a try that is cut short leaves less to the next one.
func TestTheEndOfManyProcesses(t *testing.T) {
	b := newFarBed(t, 200)
	b.batches = 1
	require.Error(t, far{b.Hands}.end(t.Context()))
	require.Len(t, b.took.all(), 1)
	assert.Len(t, b.took.all()[0].Processes, 200-endBatch)
	b.mu.Lock()
	b.batches = -1
	b.mu.Unlock()
	require.NoError(t, far{b.Hands}.end(t.Context()))
	assert.Empty(t, b.runs)
	assert.Empty(t, b.took.all())
}

// A session that the exec-server takes for attached still has its processes: they end before codex starts. What the
// exec-server reports of itself besides is nothing to the hands.
func TestASessionThatIsStillAttached(t *testing.T) {
	b := newFarBed(t, 2)
	b.refuse = []string{"session " + farSessionID + " is already attached to another connection"}
	require.NoError(t, b.Open(t.Context()))
	assert.Empty(t, b.runs)
	assert.Empty(t, b.took.all())

	b = newFarBed(t, 2)
	b.refuse = []string{"unknown session id " + farSessionID}
	require.NoError(t, b.Open(t.Context()))
	assert.Len(t, b.runs, 2, "they have ended with the session")
	assert.Empty(t, b.took.all())
}

// A session that cannot be ended keeps no other one in the record: the next try has less to do.
func TestOneOfSeveralSessionsIsStillAttached(t *testing.T) {
	b := newFarBed(t, 1)
	for _, id := range []string{"s2", "s3"} {
		b.took.began(id)
		b.took.started(id, "p")
	}
	b.refuse = []string{unknownSession + " s1", "session s2 is already attached to another connection", unknownSession + " s3"}
	require.ErrorContains(t, far{b.Hands}.end(t.Context()), "s2")
	assert.Equal(t, []takenSession{{ID: "s2", Processes: []string{"p"}}}, b.took.all())
}

// Commands of a person that the exec-server refuses leave nothing in the record.
func TestRefusedCommandsOfAPerson(t *testing.T) {
	b := newFarBed(t, 0)
	b.took.forget()
	b.took.began("s2")
	b.took.started("s2", "p")
	for range 2 {
		_, err := b.Execute(t.Context(), Process{Cap: 1, Command: Command{Argv: []string{"none"}}})
		require.ErrorContains(t, err, "no such program")
	}
	assert.Equal(t, []takenSession{{ID: "s2", Processes: []string{"p"}}}, b.took.all())
}

// The record has the processes that run.
func TestProcessesThatHaveEnded(t *testing.T) {
	b := newFarBed(t, 0)
	b.took.forget()
	s := &farSession{taken: b.took}
	s.answered([]byte(`{"id":1,"result":{"sessionId":"s2","executorVersion":{"major":1},"capabilities":{"a":1}}}`), true)
	for _, id := range []string{"one", "two"} {
		s.starts(id)
	}
	s.answered([]byte(`{"method":"process/output","params":{"processId":"one","chunk":"process/exited"}}`), true)
	s.answered([]byte(`{"method":"process/exited","params":{"processId":"one","seq":2,"exitCode":0}}`), true)
	want := []takenSession{{ID: "s2", Processes: []string{"two"}}}
	assert.Equal(t, want, b.took.all())
	assert.Equal(t, want, newTaken(b.Dir, b.Logger).all(), "in the file, too")
}

// A process whose message is too long to be parsed is in the record, too.
func TestALongStart(t *testing.T) {
	b := newFarBed(t, 0)
	b.took.forget()
	s := &farSession{taken: b.took}
	s.answered([]byte(`{"id":1,"result":{"sessionId":"s2"}}`), true)
	beginning := []byte(`{"id":2,"method":"process/start","params":{"arg0":"processId","metadata":{"processId":"x"},"processId":"long","argv":["sh","-c","` +
		strings.Repeat("x", observed))[:observed]
	b.observe(beginning, false, s)
	assert.Equal(t, []takenSession{{ID: "s2", Processes: []string{"long"}}}, b.took.all())
	b.observe([]byte(`{"id":2,"method":"process/start","params":{"argv":["`), false, s)
	assert.Len(t, b.took.all()[0].Processes, 1)
}

// A command of a person has a session of its own, which is in the record while the command runs: the next main process
// ends what this one leaves.
func TestTheCommandOfAPersonElsewhere(t *testing.T) {
	b := newFarBed(t, 0)
	b.took.forget()
	started := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer ws.CloseNow()
		for {
			var m message
			if wsjson.Read(r.Context(), ws, &m) != nil {
				return
			}
			if m.ID != nil {
				_ = wsjson.Write(r.Context(), ws, map[string]any{"id": m.ID, "result": map[string]string{"sessionId": "s9"}})
			}
			switch m.Method {
			case startMethod:
				close(started)
			case terminateMethod:
				for _, method := range []string{exitedMethod, "process/closed"} {
					_ = wsjson.Write(r.Context(), ws, map[string]any{"method": method, "params": map[string]any{}})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	b.Elsewhere.URL = strings.Replace(server.URL, "http", "ws", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Execute(ctx, Process{Cap: 1, Command: Command{Argv: []string{"true"}}})
		ended <- err
	}()
	<-started
	all := b.took.all()
	require.Len(t, all, 1)
	assert.Equal(t, "s9", all[0].ID)
	assert.Len(t, all[0].Processes, 1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.Empty(t, b.took.all(), "it has ended")
}
