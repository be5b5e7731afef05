package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

func shuttingDown(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
	p.Send(fmt.Appendf(nil,
		`{"id":%s,"error":{"code":-32600,"message":"server is shutting down","data":{"reason":"serverShuttingDown"}}}`, id))
	p.Disconnect()
	return true
}

// once lets a turn die in its own way the first time, and answers afterwards.
func once(die appservertest.Handler) (appservertest.Handler, *atomic.Int64) {
	var turns atomic.Int64
	return func(ctx context.Context, turn *appservertest.Turn) error {
		if turns.Add(1) == 1 {
			return die(ctx, turn)
		}
		turn.Text("Hello")
		turn.EndResponse(someUsage)
		return nil
	}, &turns
}

func disconnect(_ context.Context, turn *appservertest.Turn) error {
	turn.Peer().Disconnect()
	return nil
}

// retries is the counter of that reason.
func (r *rig) retries(t *testing.T, reason string) string {
	t.Helper()
	return metric(t, r, `codex_turn_retries_total{reason="`+reason+`"}`)
}

// A worker that is killed in any phase before the client has a byte is not noticed.
func TestLostTurnsRunAgain(t *testing.T) {
	t.Parallel()
	interrupted := func(_ context.Context, turn *appservertest.Turn) error {
		turn.Notify("turn/completed",
			map[string]any{"turn": map[string]any{"id": turn.ID, "status": "interrupted", "items": []any{}}})
		return nil
	}
	afterReasoning := func(_ context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("hm")
		turn.Peer().Disconnect()
		return nil
	}
	for name, tc := range map[string]struct {
		method string
		fault  appservertest.Fault
		die    appservertest.Handler
		reason string
	}{
		"before thread/start": {method: "thread/start", fault: appservertest.Disconnect,
			reason: lostWorker},
		"before the history is in": {method: "thread/inject_items", fault: appservertest.Disconnect,
			reason: lostWorker},
		"between inject and turn/start": {method: "turn/start", fault: appservertest.Disconnect,
			reason: lostWorker},
		"half a frame":                      {method: "turn/start", fault: appservertest.HalfFrame, reason: lostWorker},
		"after turn/start, before text":     {die: disconnect, reason: lostWorker},
		"after reasoning, before text":      {die: afterReasoning, reason: lostWorker},
		"shutting down at thread/start":     {method: "thread/start", fault: shuttingDown, reason: lostStopping},
		"shutting down at turn/start":       {method: "turn/start", fault: shuttingDown, reason: lostStopping},
		"interrupted by the worker's doing": {die: interrupted, reason: lostInterrupted},
	} {
		for kind, body := range map[string]string{"whole": hello(""), "streamed": hello(streaming)} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				worker := &appservertest.Server{Handler: answering(someUsage, "Hello")}
				if tc.die != nil {
					worker.Handler, _ = once(tc.die)
				} else {
					worker.Faults = map[string]appservertest.Fault{tc.method: appservertest.Times(1, tc.fault)}
				}
				r := newRig(t, worker)
				resp := r.chatting(t, body, "X-Request-Id", "again")
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
				assert.Equal(t, "again", resp.Header.Get("X-Request-Id"))
				assert.Contains(t, text(t, resp), `"content":"Hello"`)
				line := r.log.request(t, "again")
				assert.Equal(t, "ok", line["outcome"])
				assert.InDelta(t, 2, line["attempts"], 0)
				assert.InDelta(t, 20, line["input_tokens"], 0)
				assert.Equal(t, "1", r.retries(t, tc.reason))
				assert.Zero(t, r.pool.Inflight())
				assert.Zero(t, r.Report().Queue.Depth)
			})
		}
	}
}

// A whole answer can be lost with its last word and still be had whole.
func TestWholeAnswerRunsAgainAfterText(t *testing.T) {
	handler, turns := once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half an ans")
		turn.Peer().Disconnect()
		return nil
	})
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(""))
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	got := text(t, resp)
	assert.Contains(t, got, `"content":"Hello"`)
	assert.NotContains(t, got, "half")
	assert.EqualValues(t, 2, turns.Load())
}

// A stream with output of the model does not run again.
func TestBegunStreamsDoNotRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		<-received
		turn.Peer().Disconnect()
		return nil
	})
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(streaming))
	body := bufio.NewReader(resp.Body)
	frame(t, body)
	close(received)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	endsInError(t, frames(t, unread(resp, body)), "backend_unavailable", "worker_exited")
	assert.EqualValues(t, 1, turns.Load())
	assert.Equal(t, "0", r.retries(t, lostWorker))
}

// lostInSilence loses its first turns without output, each after its client received
// a part of the stream that is no output: a comment, or the first events of a response.
func lostInSilence(losses int64, received <-chan struct{}) (appservertest.Handler, *atomic.Int64) {
	var turns atomic.Int64
	return func(_ context.Context, turn *appservertest.Turn) error {
		if turns.Add(1) > losses {
			turn.Text("Hello")
			return nil
		}
		<-received
		turn.Peer().Disconnect()
		return nil
	}, &turns
}

// Comments and the header are no output: a stream that has no more runs again.
func TestSilentStreamsRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := lostInSilence(2, received)
	r := newRig(t, &appservertest.Server{Handler: handler},
		func(o *options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.chatting(t, hello(streaming), "X-Request-Id", "silent")
	body := bufio.NewReader(resp.Body)
	assert.Equal(t, ": keepalive", frame(t, body))
	close(received)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"), "the attempts until the header")
	rest := text(t, unread(resp, body))
	assert.Contains(t, rest, `"content":"Hello"`)
	assert.Contains(t, rest, "[DONE]")
	assert.Equal(t, 1, strings.Count(rest, `"role":"assistant"`))
	assert.EqualValues(t, 3, turns.Load())
	line := r.log.request(t, "silent")
	assert.Equal(t, "ok", line["outcome"])
	assert.InDelta(t, 3, line["attempts"], 0)
}

// The attempts of a silent stream are bounded, and the last loss is an error frame.
func TestAttemptsOfSilentStreamsAreBounded(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": hello(streaming), "/v1/responses": asked(streaming, `"q"`),
	} {
		received := make(chan struct{})
		handler, turns := lostInSilence(9, received)
		r := newRig(t, &appservertest.Server{Handler: handler},
			func(o *options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.do(t, http.MethodPost, path, body, "X-Request-Id", "silent")
		close(received)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		got := text(t, resp)
		if path == "/v1/responses" {
			assert.Contains(t, got, "event: response.failed\n")
		} else {
			assert.Contains(t, got, `"code":"worker_exited"`)
		}
		assert.NotContains(t, got, "[DONE]")
		assert.Equal(t, "worker_exited", r.log.request(t, "silent")["outcome"])
		assert.EqualValues(t, 3, turns.Load())
	}
}

// A response whose first events were sent runs again as the same response.
func TestSilentResponsesRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := lostInSilence(2, received)
	r := newRig(t, &appservertest.Server{Handler: handler},
		func(o *options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.responding(t, asked(streaming, `"q"`))
	body := bufio.NewReader(resp.Body)
	_, err := body.Peek(1)
	require.NoError(t, err)
	close(received)
	list := events(t, text(t, unread(resp, body)))
	assert.EqualValues(t, 3, turns.Load())
	assert.Equal(t, "response.completed", list[len(list)-1].Type)
	for i, e := range list {
		assert.Equal(t, i == 0, e.Type == "response.created")
		if e.Response != nil {
			assert.Equal(t, list[0].Response.ID, e.Response.ID)
		}
	}
}

// What a tool has done must not be done twice.
func TestTurnsThatCalledAToolDoNotRunAgain(t *testing.T) {
	handler, turns := once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Notify("rawResponseItem/completed", map[string]any{"item": map[string]any{
			"type": "function_call", "name": "rm", "arguments": "{}", "call_id": "c1",
		}})
		turn.Peer().Disconnect()
		return nil
	})
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "worker_exited", failure(t, text(t, resp)).Error.Code)
	assert.EqualValues(t, 1, turns.Load())
}

// What the model endpoint refused, it would refuse again.
func TestFailedTurnsDoNotRunAgain(t *testing.T) {
	handler, turns := once(func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	})
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(streaming))
	assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.EqualValues(t, 1, turns.Load())
}

// A request that kills its workers does so three times and not more.
func TestTriesAreBounded(t *testing.T) {
	var turns atomic.Int64
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turns.Add(1)
		return disconnect(ctx, turn)
	}})
	resp := r.chatting(t, hello(streaming))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "3", resp.Header.Get("X-Codex-Attempts"))
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	assert.Equal(t, "worker_exited", failure(t, text(t, resp)).Error.Code)
	assert.EqualValues(t, 3, turns.Load())
	assert.Equal(t, "2", r.retries(t, lostWorker))
}

// A worker that takes no turns and does not go away is not asked again: the
// request waits for another, within the deadline of the queue.
func TestStoppingWorkerIsNotAskedAgain(t *testing.T) {
	var asked atomic.Int64
	r := newRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"thread/start": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			asked.Add(1)
			p.Send(fmt.Appendf(nil,
				`{"id":%s,"error":{"code":-32600,"message":"server is shutting down","data":{"reason":"serverShuttingDown"}}}`, id))
			return true
		},
	}}, func(o *options) { o.queue.Timeout = 50 * time.Millisecond })
	resp := r.chatting(t, hello(streaming))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "worker_not_ready", failure(t, text(t, resp)).Error.Code)
	assert.EqualValues(t, 1, asked.Load())
}

// A drain finishes what is in flight, also what has to run again for that.
func TestLostTurnsRunAgainDuringADrain(t *testing.T) {
	began, drained := make(chan struct{}), make(chan struct{})
	handler, _ := once(func(ctx context.Context, turn *appservertest.Turn) error {
		close(began)
		<-drained
		return disconnect(ctx, turn)
	})
	r := newRig(t, &appservertest.Server{Handler: handler})
	whole := make(chan *http.Response, 1)
	go func() { whole <- r.chatting(t, hello("")) }()
	received(t, began)
	r.pool.Drain()
	close(drained)
	resp := received(t, whole)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	await(t, tick(t), func() bool { return r.pool.Inflight() == 0 })
}

// How codex's silence and its -32001 come out of a start that takes too long.
func TestStartsThatTakeTooLong(t *testing.T) {
	for want, fault := range map[string]appservertest.Fault{lostStart: appservertest.Silent,
		lostOverloaded: appservertest.Overloaded} {
		wanted := []string{want, lostStart} // the time may be over between a question and its answer, too
		for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
			worker := &appservertest.Server{Faults: map[string]appservertest.Fault{method: fault}}
			r := newRig(t, worker, func(o *options) {
				o.queue.Timeout, o.StartTimeout = 50*time.Millisecond, 20*time.Millisecond
			})
			text(t, r.chatting(t, hello("")))
			lost := map[string]bool{}
			for _, reason := range wanted {
				lost[reason] = r.retries(t, reason) != "0"
			}
			assert.True(t, lost[wanted[0]] || lost[wanted[1]], "%s: %v", method, lost)
		}
	}
}

// Sixteen turns are lost with one worker, as many requests come meanwhile:
// nobody gets an error, and nothing is left over.
func TestManyLostTurnsRunAgain(t *testing.T) {
	const turns = 16
	var begun atomic.Int64
	all, kill := make(chan struct{}), make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		n := begun.Add(1)
		if n == turns {
			close(all)
		}
		if n <= turns {
			<-kill
			turn.Peer().Disconnect()
			return nil
		}
		turn.Text("Hello")
		return nil
	}})
	answers := make(chan *http.Response, 2*turns)
	for i := range 2 * turns {
		body := hello("")
		if i%2 == 0 {
			body = hello(streaming)
		}
		go func() { answers <- r.chatting(t, body) }()
	}
	received(t, all)
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == turns })
	close(kill)
	tries := map[string]int{}
	for range 2 * turns {
		resp := received(t, answers)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Contains(t, text(t, resp), `"content":"Hello"`)
		tries[resp.Header.Get("X-Codex-Attempts")]++
	}
	assert.Equal(t, map[string]int{"1": turns, "2": turns}, tries)
	assert.EqualValues(t, 3*turns, begun.Load())
	assert.Equal(t, "16", r.retries(t, lostWorker))
	await(t, tick(t), func() bool { return r.pool.Inflight() == 0 })
	assert.Zero(t, r.Report().Queue.Depth)
}
