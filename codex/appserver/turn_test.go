package appserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/delivery"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
)

func TestTurn(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("let me ", "think")
		turn.Text("hello ", "world")
		turn.EndResponse(appservertest.Usage{Input: 11, Cached: 3, Output: 7, Reasoning: 2})
		return nil
	}})
	turn := start(t, c, hello())
	o := drain(t, turn)

	assert.Equal(t, "hello world", o.text)
	assert.Equal(t, "let me think", o.reasoning)
	assert.Equal(t, appserver.Usage{InputTokens: 11, CachedInputTokens: 3, OutputTokens: 7, ReasoningOutputTokens: 2,
		TotalTokens: 18}, o.usage)
	assert.Equal(t, appserver.TurnCompleted{Status: appserver.TurnCompletedOK}, o.end)
	items := 0
	for _, e := range o.events {
		if e, ok := e.(appserver.ResponseItem); ok {
			items++
			assert.NotContains(t, string(e.Item), "auto-compact", "the echo of the history is no item of the model")
		}
	}
	assert.Equal(t, 2, items)
	_, err := turn.Next(bound(t))
	assert.ErrorIs(t, err, io.EOF)
}

func TestTurnSendsTheWholeRequest(t *testing.T) {
	got := make(chan appservertest.Request, 1)
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		got <- turn.Request
		return nil
	}})
	sys := ""
	turn := start(t, c, appserver.TurnRequest{
		Model: "m", BaseInstructions: &sys, Effort: "high", Summary: "detailed",
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Items: []history.Item{
			history.Message("user", history.Content{Type: "input_text"},
				history.Content{Type: "input_image", ImageURL: "data:,"}),
			history.TextMessage("assistant", "yes"),
			history.FunctionCall("call_1", "f", "{}"),
			history.FunctionCallOutput("call_1", "sunny"),
		},
	})
	drain(t, turn)
	r := <-got
	assert.Equal(t, "m", r.Model)
	assert.Equal(t, &sys, r.BaseInstructions)
	assert.Equal(t, "high", r.Effort)
	assert.Equal(t, "detailed", r.Summary)
	assert.JSONEq(t, `{"type":"object"}`, string(r.OutputSchema))
	items, err := json.Marshal(r.Items)
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"type":"message","role":"user","content":[{"type":"input_text","text":""},{"type":"input_image",
		"image_url":"data:,"}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]},
		{"type":"function_call","name":"f","arguments":"{}","call_id":"call_1"},
		{"type":"function_call_output","call_id":"call_1","output":"sunny"}]`, string(items))
}

func TestFirstTextArrivesWhileTheTurnRuns(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: appservertest.Hang("first")})
	turn := start(t, c, hello())
	e, err := turn.Next(bound(t))
	require.NoError(t, err)
	assert.Equal(t, "first", e.(appserver.TextDelta).Text)
}

func TestSeveralMessagesInOrder(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("one, ")
		turn.Whole("two, ")
		m := turn.Begin("x")
		m.Delta("thr")
		turn.Notify("unknown/notification", map[string]any{"turn": 7})
		m.Delta("ee")
		m.End()
		return nil
	}})
	o := drain(t, start(t, c, hello()))
	assert.Equal(t, "one, two, three", o.text)
	assert.Len(t, o.texts, 3)
}

func TestTextOnlyInCompletedItem(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Whole("all at once")
		// The tail that codex held back, and reasoning without deltas.
		turn.Notify("item/agentMessage/delta", map[string]any{"itemId": "m", "delta": " and a"})
		turn.Notify("item/completed", map[string]any{
			"item": map[string]any{"type": "agentMessage", "id": "m", "text": " and a tail"}})
		turn.Notify("item/completed", map[string]any{
			"item": map[string]any{"type": "reasoning", "id": "r", "summary": []string{"why", "not"}}})
		return nil
	}})
	o := drain(t, start(t, c, hello()))
	assert.Equal(t, "all at once and a tail", o.text)
	assert.Equal(t, "whynot", o.reasoning)
}

func TestRetryBeforeTextIsLeftToCodex(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("hm")
		turn.Retry("Reconnecting... 1/2", appservertest.HTTPInfo("responseStreamDisconnected", 0),
			"stream disconnected")
		turn.Reasoning("hm")
		turn.Text("answer")
		return nil
	}})
	o := drain(t, start(t, c, hello()))
	assert.Equal(t, "answer", o.text)
	assert.Equal(t, "hm", o.reasoning, "reasoning is delivered once")
	assert.Equal(t, 1, o.retries)
	assert.Equal(t, appserver.TurnCompletedOK, o.end.Status)
}

func TestRetryAfterTextFailsTheTurn(t *testing.T) {
	srv := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		m := turn.Begin("same")
		m.Delta("Hello wor")
		turn.Retry("Reconnecting... 1/2", appservertest.HTTPInfo("responseStreamDisconnected", 0),
			"stream disconnected")
		m = turn.Begin("same")
		m.Delta("Hello")
		<-ctx.Done()
		return nil
	}}
	c := connect(t, srv)
	turn := start(t, c, hello())
	o := drain(t, turn)
	assert.Equal(t, "Hello wor", o.text)
	assert.Equal(t, appserver.TurnFailed, o.end.Status)
	assert.Equal(t, turnerror.Info{Kind: "responseStreamDisconnected"}, o.end.Err.Info)
	assert.EqualError(t, o.end.Err, "Reconnecting... 1/2: stream disconnected")
	_, err := turn.Next(bound(t))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, turn.Close(bound(t)))
	assert.Contains(t, srv.Requests(), "turn/interrupt", "the retry is interrupted")
}

func TestRetryOfALaterResponseIsLeftToCodex(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("first. ")
		turn.EndResponse(appservertest.Usage{Input: 1, Output: 1})
		turn.Retry("Reconnecting... 1/2", "other", "")
		turn.Text("second.")
		turn.EndResponse(appservertest.Usage{Input: 2, Output: 2})
		return nil
	}})
	o := drain(t, start(t, c, hello()))
	assert.Equal(t, "first. second.", o.text)
	assert.Equal(t, appserver.TurnCompletedOK, o.end.Status)
	assert.EqualValues(t, 6, o.usage.TotalTokens)
}

func TestFailures(t *testing.T) {
	kinds := []string{
		"contextWindowExceeded", "sessionBudgetExceeded", "usageLimitExceeded", "rateLimitExceeded", "flexUnavailable",
		"serverOverloaded", "modelNotFound", "policyCapacityUnavailable", "cyberPolicy", "misalignmentPolicyViolation",
		"tooManyDenials", "internalServerError", "unauthorized", "badRequest", "threadRollbackFailed", "sandboxError",
		"other", "inferenceHookDenied", "somethingOfTheFuture",
	}
	cases := map[turnerror.Info]any{}
	for _, k := range kinds {
		cases[turnerror.Info{Kind: k}] = k
	}
	for _, k := range []string{"httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected",
		"responseTooManyFailedAttempts"} {
		cases[turnerror.Info{Kind: k, HTTPStatus: 503}] = appservertest.HTTPInfo(k, 503)
		cases[turnerror.Info{Kind: k}] = appservertest.HTTPInfo(k, 0)
	}
	cases[turnerror.Info{Kind: "activeTurnNotSteerable"}] = map[string]any{
		"activeTurnNotSteerable": map[string]any{"turnKind": "review"}}
	cases[turnerror.Info{}] = nil
	info := make(chan any, 1)
	c := connect(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: "no luck", Info: <-info}
	}})
	for want, send := range cases {
		info <- send
		o := drain(t, start(t, c, hello()))
		require.Equal(t, appserver.TurnFailed, o.end.Status)
		assert.Equal(t, want, o.end.Err.Info)
		assert.Equal(t, "no luck", o.end.Err.Message)
	}
}

func TestIncomplete(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("half an ans")
		return &appservertest.Failure{
			Message: "Incomplete response returned, reason: max_output_tokens", Info: "other",
			Usage: appservertest.Usage{Input: 5, Output: 3},
		}
	}})
	o := drain(t, start(t, c, hello()))
	reason, ok := o.end.Err.Incomplete()
	assert.True(t, ok)
	assert.Equal(t, "max_output_tokens", reason)
	assert.EqualValues(t, 8, o.usage.TotalTokens)
}

// Another client interrupts the turn.
func TestInterruptByOthers(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: appservertest.Hang("never")})
	turn := start(t, c, hello())
	require.NoError(t, c.Call(bound(t), "turn/interrupt", map[string]string{"threadId": turn.ThreadID()}, nil))
	o := drain(t, turn)
	assert.Equal(t, appserver.TurnInterrupted, o.end.Status)
	for _, e := range o.events {
		_, made := e.(appserver.ResponseItem)
		assert.False(t, made, "the note about the interrupt is no item of the model")
	}
}

func TestCloseInterruptsEvenAfterTheCallersContext(t *testing.T) {
	ended := make(chan struct{})
	srv := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		<-ctx.Done()
		close(ended)
		return nil
	}}
	c := connect(t, srv)
	turn, err := c.StartTurn(bound(t), hello())
	require.NoError(t, err)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = turn.Close(gone)
	<-ended
	assert.NoError(t, turn.Close(bound(t)), "closing again does nothing")
	_, err = turn.Next(bound(t))
	assert.ErrorIs(t, err, appserver.ErrTurnClosed)
}

// Codex reports a turn's id a little before it can interrupt the turn.
func TestEarlyInterruptIsSentAgain(t *testing.T) {
	peer := make(chan *appservertest.Peer, 1)
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"turn/start": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			p.Reply(id, map[string]any{"turn": map[string]any{"id": "t"}})
			peer <- p
			return true
		},
		"turn/interrupt": appservertest.Times(3, appservertest.Refused(-32600, "no active turn to interrupt")),
	}}
	c := connect(t, srv)
	turn, err := c.StartTurn(bound(t), hello())
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() { closed <- turn.Close(bound(t)) }()
	interrupts := func() (n int) {
		for _, method := range srv.Requests() {
			if method == "turn/interrupt" {
				n++
			}
		}
		return n
	}
	eventually(t, func() bool { return interrupts() == 1 })
	_, err = c.Models(bound(t)) // the refusal has been read
	require.NoError(t, err)
	assert.NotContains(t, srv.Requests(), "thread/unsubscribe",
		"the thread is not given up while its turn may still start")

	(<-peer).Notify("turn/started", map[string]any{"threadId": turn.ThreadID(), "turn": map[string]any{"id": "t"}})
	assert.NoError(t, <-closed)
	assert.Greater(t, interrupts(), 2, "again at turn/started, and until codex accepts it")
}

// Codex 0.140 and 0.153 do not always answer an interrupt, whose turn they report as ended.
func TestInterruptWithoutAnAnswer(t *testing.T) {
	end := func(*appservertest.Peer) {}
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{
		"turn/start": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			p.Reply(id, map[string]any{"turn": map[string]any{"id": "t"}})
			return true
		},
		"turn/interrupt": func(_ context.Context, p *appservertest.Peer, _ json.RawMessage) bool {
			end(p)
			return true
		},
	}}
	turn, err := connect(t, srv).StartTurn(bound(t), hello())
	require.NoError(t, err)
	end = func(p *appservertest.Peer) {
		p.Notify("turn/completed", map[string]any{"threadId": turn.ThreadID(),
			"turn": map[string]any{"id": "t", "status": "interrupted", "items": []any{}}})
	}
	require.NoError(t, turn.Close(bound(t)))
	assert.Contains(t, srv.Requests(), "thread/unsubscribe")
}

// Codex continues a turn and keeps a thread whose end it was too busy to accept.
func TestClosingIsTriedAgainWhileOverloaded(t *testing.T) {
	busy := func() map[string]appservertest.Fault {
		return map[string]appservertest.Fault{
			"turn/interrupt":     appservertest.Times(2, appservertest.Overloaded),
			"thread/unsubscribe": appservertest.Times(1, appservertest.Overloaded),
		}
	}
	only := func(srv *appservertest.Server, methods ...string) (asked []string) {
		for _, method := range srv.Requests() {
			if slices.Contains(methods, method) {
				asked = append(asked, method)
			}
		}
		return asked
	}
	t.Run("a turn", func(t *testing.T) {
		srv := &appservertest.Server{Handler: appservertest.Hang("x"), Faults: busy()}
		turn, err := connect(t, srv).StartTurn(bound(t), hello())
		require.NoError(t, err)
		_, err = turn.Next(bound(t)) // it has started
		require.NoError(t, err)
		require.NoError(t, turn.Close(bound(t)))
		assert.Equal(t, []string{"turn/interrupt", "turn/interrupt", "turn/interrupt", "thread/unsubscribe",
			"thread/unsubscribe"},
			only(srv, "turn/interrupt", "thread/unsubscribe"))
	})
	t.Run("a slow consumer's", func(t *testing.T) {
		ended := make(chan struct{})
		srv := &appservertest.Server{Faults: busy(),
			Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				defer close(ended)
				turn.Text(strings.Repeat("x", 1000), strings.Repeat("x", 1000))
				<-ctx.Done()
				return ctx.Err()
			}}
		c := connectWith(t, srv, appserver.Options{QueueBytes: 1000})
		start(t, c, hello())
		<-ended
	})
	t.Run("a kept thread", func(t *testing.T) {
		srv := &appservertest.Server{Handler: appservertest.Reply("yes"), Faults: busy()}
		turn, err := connect(t, srv).StartTurn(bound(t), hello())
		require.NoError(t, err)
		drain(t, turn)
		turn.Keep().Close()
		eventually(t, func() bool { return len(only(srv, "thread/unsubscribe")) == 2 })
	})
	t.Run("a prestarted thread", func(t *testing.T) {
		srv := &appservertest.Server{Handler: appservertest.Reply("yes")}
		c := connectWith(t, srv, appserver.Options{Prestart: 1})
		turnOf(t, c, srv, hello())
		turnOf(t, c, srv, hello())
		other := hello()
		other.Model = "other"
		turnOf(t, c, srv, other)
		closed := len(only(srv, "thread/unsubscribe"))
		srv.Faults = map[string]appservertest.Fault{
			"thread/unsubscribe": appservertest.Times(2, appservertest.Overloaded)}
		turnOf(t, c, srv, other)
		// its own thread, and the removed one
		eventually(t, func() bool { return len(only(srv, "thread/unsubscribe")) == closed+4 })
	})
}

func TestCloseEndsAWaitingNext(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, _ *appservertest.Turn) error {
		<-ctx.Done()
		return nil
	}})
	turn := start(t, c, hello())
	next := make(chan error, 1)
	go func() { _, err := turn.Next(bound(t)); next <- err }()
	require.NoError(t, turn.Close(bound(t)))
	assert.ErrorIs(t, <-next, appserver.ErrTurnClosed)
}

// Notifications that make no event do not prolong the wait for one.
func TestNextWithin(t *testing.T) {
	goOn := make(chan struct{})
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				turn.Notify("unknown/notification", map[string]any{})
			case <-goOn:
				turn.Text("done")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}})
	turn := start(t, c, hello())
	began := time.Now()
	for range 2 {
		_, err := turn.NextWithin(bound(t), 50*time.Millisecond)
		require.ErrorIs(t, err, appserver.ErrSilent)
	}
	eventually(t, func() bool { return turn.LastReceived().After(began) })
	close(goOn)
	assert.Equal(t, "done", drain(t, turn).text)
}

func TestSlowConsumerLosesOnlyItsOwnTurn(t *testing.T) {
	for name, limits := range map[string]appserver.Options{
		"events": {QueueEvents: 10},
		"bytes":  {QueueBytes: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			flooded := make(chan struct{})
			srv := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				if turn.Request.Model != "flood" {
					turn.Text("fine")
					return nil
				}
				m := turn.Begin("")
				for range 100 {
					m.Delta(strings.Repeat("x", 1000))
				}
				<-ctx.Done() // the overflow interrupts the turn
				close(flooded)
				return nil
			}}
			c := connectWith(t, srv, limits)
			slow := hello()
			slow.Model = "flood"
			turn := start(t, c, slow)
			<-flooded
			_, err := turn.Next(bound(t))
			require.ErrorIs(t, err, delivery.ErrSlowConsumer)
			assert.Equal(t, "fine", drain(t, start(t, c, hello())).text)
		})
	}
}

func TestConnectionLostMidTurn(t *testing.T) {
	for name, lose := range map[string]func(*appservertest.Peer){
		"end of stream": (*appservertest.Peer).Disconnect,
		"half a frame":  (*appservertest.Peer).HalfFrame,
		"not JSON":      func(p *appservertest.Peer) { p.Send([]byte(`{"method":`)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				turn.Begin("").Delta("half an ans")
				lose(turn.Peer())
				<-ctx.Done()
				return nil
			}})
			turn := start(t, c, hello())
			o, err := collect(bound(t), turn)
			assert.Equal(t, "half an ans", o.text, "events before the loss are delivered")
			require.ErrorIs(t, err, rpc.ErrLost)
			assert.Equal(t, c.Err(), err)
			<-c.Done()
			assert.ErrorIs(t, turn.Close(bound(t)), rpc.ErrLost)
			_, err = c.StartTurn(bound(t), hello())
			assert.ErrorIs(t, err, rpc.ErrLost)
		})
	}
}

func TestEventThatDoesNotParseFailsTheTurn(t *testing.T) {
	c := connect(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Notify("item/agentMessage/delta", map[string]any{"itemId": "m", "delta": 5})
		<-ctx.Done()
		return nil
	}})
	o := drain(t, start(t, c, hello()))
	require.Equal(t, appserver.TurnFailed, o.end.Status)
	assert.ErrorContains(t, o.end.Err, "item/agentMessage/delta")
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 2*time.Millisecond)
}

var errTest = errors.New("the cause of the test")
