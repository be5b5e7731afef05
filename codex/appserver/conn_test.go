package appserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
)

func TestHandshake(t *testing.T) {
	srv := &appservertest.Server{}
	c := dial(t, appservertest.Start(t, srv), appserver.Options{ClientName: "tester", ClientVersion: "1.2"})
	_, err := c.Models(bound(t))
	require.ErrorContains(t, err, "Not initialized")
	r, err := c.Initialize(bound(t))
	require.NoError(t, err)
	assert.Contains(t, r.UserAgent, "tester/")
}

func TestModels(t *testing.T) {
	srv := &appservertest.Server{Models: []appservertest.Model{{ID: "a"}, {ID: "b", Hidden: true}}}
	models, err := connect(t, srv).Models(bound(t))
	require.NoError(t, err)
	require.Len(t, models, 2)
	assert.Equal(t, "a", models[0].ID)
	assert.False(t, models[0].Hidden)
	assert.True(t, models[1].Hidden)
}

func TestModelsReadsAllPages(t *testing.T) {
	pages := []string{`{"data":[{"id":"a"},{"id":"b"}],"nextCursor":"2"}`, `{"data":[{"id":"c"}],"nextCursor":null}`}
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"model/list": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			p.Reply(id, json.RawMessage(pages[0]))
			pages = pages[1:]
			return true
		}}}
	models, err := connect(t, srv).Models(bound(t))
	require.NoError(t, err)
	assert.Len(t, models, 3)
}

func TestModelsGivesUpOnAnEndlessList(t *testing.T) {
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"model/list": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			p.Reply(id, json.RawMessage(`{"data":[{"id":"a"}],"nextCursor":"1"}`))
			return true
		}}}
	_, err := connect(t, srv).Models(bound(t))
	assert.ErrorContains(t, err, "pages")
}

func TestConcurrentTurns(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text(strings.SplitAfter(turn.Request.Prompt(), "")...)
		return nil
	}})
	var g errgroup.Group
	for i := range 50 {
		g.Go(func() error {
			text := fmt.Sprintf("turn number %d", i)
			turn, err := c.StartTurn(bound(t),
				appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", text)}})
			if err != nil {
				return err
			}
			o, err := collect(bound(t), turn)
			if err == nil && o.text != text {
				err = fmt.Errorf("got %q, want %q", o.text, text)
			}
			if err != nil {
				return err
			}
			return turn.Close(context.Background())
		})
	}
	assert.NoError(t, g.Wait())
}

func TestStrangeRepliesAreIgnored(t *testing.T) {
	for _, frame := range []string{
		`{"id":987654321,"result":{}}`,
		`{"id":"1","result":{}}`,
		`{"id":1.5,"result":{}}`,
		`{"id":null,"error":{"code":-32700,"message":"parse error"}}`,
		`{"id":{"a":1},"result":{}}`,
		`{}`,
		`{"method":"of/the/future"}`,
		`{"method":"turn/completed","params":{"threadId":"nobody's","turn":{"id":"x"}}}`,
		`{"method":"turn/completed","params":[1,2]}`,
		`{"method":"turn/completed","params":"text"}`,
		`{"method":"turn/completed","params":{"threadId":7}}`,
	} {
		srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
			"model/list": func(_ context.Context, p *appservertest.Peer, _ json.RawMessage) bool {
				p.Send([]byte(frame))
				return false
			}}}
		_, err := connect(t, srv).Models(bound(t))
		assert.NoError(t, err, frame)
	}
}

func TestEveryWaiterGetsTheCause(t *testing.T) {
	silent := map[string]appservertest.Fault{"account/read": appservertest.Silent}
	c := connect(t, &appservertest.Server{Faults: silent, Handler: appservertest.Hang("")})
	turn := start(t, c, hello())
	errs := make(chan error, 6)
	var waiting sync.WaitGroup
	for range 5 {
		waiting.Add(1)
		go func() { waiting.Done(); errs <- c.Call(bound(t), "account/read", nil, nil) }()
	}
	waiting.Add(1)
	go func() {
		waiting.Done()
		for {
			if _, err := turn.Next(bound(t)); err != nil {
				errs <- err
				return
			}
		}
	}()
	waiting.Wait()
	c.Close(errTest)
	for range 6 {
		assert.ErrorIs(t, <-errs, errTest)
	}
	assert.Equal(t, errTest, c.Err())
	assert.ErrorIs(t, c.Notify(bound(t), "x", nil), errTest)
	c.Close(nil)
	assert.Equal(t, errTest, c.Err(), "only the first cause counts")
}

func TestThreadlessNotifications(t *testing.T) {
	got := make(chan appserver.Notification, 10)
	srv := &appservertest.Server{Handler: appservertest.Reply("x")}
	c := connectWith(t, srv, appserver.Options{OnNotification: func(n appserver.Notification) { got <- n }})
	drain(t, start(t, c, hello()))
	n := <-got
	assert.Equal(t, "account/rateLimits/updated", n.Method)
	assert.Contains(t, string(n.Params), "rateLimits")
}

func TestServerRequestsAreAnswered(t *testing.T) {
	for method, want := range map[string]string{
		"item/commandExecution/requestApproval": `{"id":0,"result":{"decision":"decline"}}`,
		"item/fileChange/requestApproval":       `{"id":0,"result":{"decision":"decline"}}`,
		"item/permissions/requestApproval":      `{"id":0,"result":{"permissions":{}}}`,
		"mcpServer/elicitation/request":         `{"id":0,"result":{"action":"decline","content":null}}`,
		"item/tool/call": `{"id":0,"result":{"contentItems":[{"type":"inputText",` +
			`"text":"this tool cannot be run here"}],"success":false}}`,
		"currentTime/read": `{"id":0,"error":{"code":-32601,` +
			`"message":"method not found: currentTime/read"}}`,
	} {
		answer := make(chan string, 1)
		c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			b, err := turn.Ask(ctx, method, map[string]any{})
			answer <- string(b)
			return err
		}})
		drain(t, start(t, c, hello()))
		assert.JSONEq(t, want, <-answer, method)
	}
}

func TestLargeMessages(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 2<<20/16)
	srv := &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		b, err := json.Marshal(map[string]any{"method": "item/agentMessage/delta", "params": map[string]any{
			"threadId": turn.ThreadID, "turnId": turn.ID, "itemId": "m", "delta": turn.Request.Prompt(),
		}})
		turn.Peer().SendFragmented(b, 100_000)
		return err
	}}
	tap := newTap(t, appservertest.Start(t, srv))
	c := dial(t, tap.path, appserver.Options{})
	_, err := c.Initialize(bound(t))
	require.NoError(t, err)
	r := hello()
	r.Items = []history.Item{history.TextMessage("user", big)}
	assert.Equal(t, big, drain(t, start(t, c, r)).text)
	assert.LessOrEqual(t, tap.largest(), 1<<20, "no frame over 1 MiB")
	assert.Greater(t, tap.largest(), 1<<19)

	r.Items[0] = history.TextMessage("user", strings.Repeat(big, 33))
	_, err = c.StartTurn(bound(t), r)
	assert.ErrorIs(t, err, rpc.ErrTooLarge)
	assert.NoError(t, c.Err())
}

// Random frames from a fixed seed: nothing panics, every connection ends or survives, and no descriptor leaks.
func TestRandomFrames(t *testing.T) {
	var turns atomic.Uint64
	srv := &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		random := rand.New(rand.NewPCG(1, turns.Add(1))) // the last turn may not have ended
		seed := strings.NewReplacer("THREAD", turn.ThreadID, "TURN", turn.ID).Replace(seeds[random.IntN(len(seeds))])
		turn.Begin("i").Delta("x")
		turn.Peer().Send(mutate(random, []byte(seed)))
		return nil
	}}
	path := appservertest.Start(t, srv)
	before := descriptors(t)
	for range 300 {
		meetFrame(t, path)
	}
	eventually(t, func() bool { return descriptors(t) <= before })
}

// meetFrame runs a turn in which the fake sends a mutated frame.
func meetFrame(t *testing.T, path string) {
	t.Helper()
	c, err := appserver.Dial(bound(t), path, appserver.Options{})
	require.NoError(t, err)
	ran := make(chan struct{})
	go func() { defer close(ran); _ = c.Run(context.Background()) }()
	_, err = c.Initialize(bound(t))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if turn, err := c.StartTurn(ctx, hello()); err == nil {
		_, _ = collect(ctx, turn)
		_ = turn.Close(ctx)
	}
	c.Close(nil)
	<-ran
}

var seeds = []string{
	`{"id":3,"result":{"turn":{"id":"TURN"}}}`,
	`{"id":1,"error":{"code":-32001,"message":"Server overloaded; retry later."}}`,
	`{"method":"turn/completed","params":{"threadId":"THREAD","turn":{"id":"TURN","status":"failed",` +
		`"error":{"message":"m","codexErrorInfo":"other"}}}}`,
	`{"method":"item/agentMessage/delta","params":{"threadId":"THREAD","turnId":"TURN","itemId":"i","delta":"d"}}`,
	`{"method":"error","params":{"threadId":"THREAD","turnId":"TURN","willRetry":true,"error":{"message":"m",` +
		`"codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":500}}}}}`,
	`{"id":"x","method":"item/tool/call","params":{"threadId":"THREAD","arguments":{}}}`,
}

func mutate(random *rand.Rand, b []byte) []byte {
	for range 1 + random.IntN(8) {
		i := random.IntN(len(b))
		switch random.IntN(4) {
		case 0:
			b[i] = byte(random.IntN(256))
		case 1:
			b = append(b[:i:i], b[min(len(b), i+1+random.IntN(20)):]...)
		case 2:
			b = append(b[:i:i], append([]byte(`{"[]},:0-e9ul\n`)[:1+random.IntN(13)], b[i:]...)...)
		case 3:
			b = b[:i+1]
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}
