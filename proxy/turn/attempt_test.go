package turn_test

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
	"codex-proxy/proxy/api/apitest"
)

func shuttingDown(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
	p.Send(fmt.Appendf(nil,
		`{"id":%s,"error":{"code":-32600,"message":"server is shutting down","data":{"reason":"serverShuttingDown"}}}`, id))
	p.Disconnect()
	return true
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
			reason: apitest.LostWorker},
		"before the history is in": {method: "thread/inject_items", fault: appservertest.Disconnect,
			reason: apitest.LostWorker},
		"between inject and turn/start": {method: "turn/start", fault: appservertest.Disconnect,
			reason: apitest.LostWorker},
		"half a frame":                      {method: "turn/start", fault: appservertest.HalfFrame, reason: apitest.LostWorker},
		"after turn/start, before text":     {die: apitest.Disconnect, reason: apitest.LostWorker},
		"after reasoning, before text":      {die: afterReasoning, reason: apitest.LostWorker},
		"shutting down at thread/start":     {method: "thread/start", fault: shuttingDown, reason: apitest.LostStopping},
		"shutting down at turn/start":       {method: "turn/start", fault: shuttingDown, reason: apitest.LostStopping},
		"interrupted by the worker's doing": {die: interrupted, reason: apitest.LostInterrupted},
	} {
		for kind, body := range map[string]string{"whole": apitest.Hello(""), "streamed": apitest.Hello(apitest.Streaming)} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				worker := &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "Hello")}
				if tc.die != nil {
					worker.Handler, _ = apitest.Once(tc.die)
				} else {
					worker.Faults = map[string]appservertest.Fault{tc.method: appservertest.Times(1, tc.fault)}
				}
				r := apitest.NewRig(t, worker)
				resp := r.Chatting(t, body, "X-Request-Id", "again")
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
				assert.Equal(t, "again", resp.Header.Get("X-Request-Id"))
				assert.Contains(t, apitest.Text(t, resp), `"content":"Hello"`)
				line := r.Log.Request(t, "again")
				assert.Equal(t, "ok", line["outcome"])
				assert.InDelta(t, 2, line["attempts"], 0)
				assert.InDelta(t, 20, line["input_tokens"], 0)
				assert.Equal(t, "1", r.Retries(t, tc.reason))
				assert.Zero(t, r.Pool.Inflight())
				assert.Zero(t, r.Report().Queue.Depth)
			})
		}
	}
}

// A whole answer can be lost with its last word and still be had whole.
func TestWholeAnswerRunsAgainAfterText(t *testing.T) {
	handler, turns := apitest.Once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half an ans")
		turn.Peer().Disconnect()
		return nil
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	got := apitest.Text(t, resp)
	assert.Contains(t, got, `"content":"Hello"`)
	assert.NotContains(t, got, "half")
	assert.EqualValues(t, 2, turns.Load())
}

// A stream with output of the model does not run again.
func TestBegunStreamsDoNotRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := apitest.Once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		<-received
		turn.Peer().Disconnect()
		return nil
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	apitest.Frame(t, body)
	close(received)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	apitest.EndsInError(t, apitest.Frames(t, apitest.Unread(resp, body)), "backend_unavailable", "worker_exited")
	assert.EqualValues(t, 1, turns.Load())
	assert.Equal(t, "0", r.Retries(t, apitest.LostWorker))
}

// Comments and the header are no output: a stream that has no more runs again.
func TestSilentStreamsRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := apitest.LostInSilence(2, received)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler},
		func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming), "X-Request-Id", "silent")
	body := bufio.NewReader(resp.Body)
	assert.Equal(t, ": keepalive", apitest.Frame(t, body))
	close(received)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"), "the attempts until the header")
	rest := apitest.Text(t, apitest.Unread(resp, body))
	assert.Contains(t, rest, `"content":"Hello"`)
	assert.Contains(t, rest, "[DONE]")
	assert.Equal(t, 1, strings.Count(rest, `"role":"assistant"`))
	assert.EqualValues(t, 3, turns.Load())
	line := r.Log.Request(t, "silent")
	assert.Equal(t, "ok", line["outcome"])
	assert.InDelta(t, 3, line["attempts"], 0)
}

// The attempts of a silent stream are bounded, and the last loss is an error frame.
func TestAttemptsOfSilentStreamsAreBounded(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": apitest.Hello(apitest.Streaming), "/v1/responses": apitest.Asked(apitest.Streaming, `"q"`),
	} {
		received := make(chan struct{})
		handler, turns := apitest.LostInSilence(9, received)
		r := apitest.NewRig(t, &appservertest.Server{Handler: handler},
			func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.Do(t, http.MethodPost, path, body, "X-Request-Id", "silent")
		close(received)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		got := apitest.Text(t, resp)
		if path == "/v1/responses" {
			assert.Contains(t, got, "event: response.failed\n")
		} else {
			assert.Contains(t, got, `"code":"worker_exited"`)
		}
		assert.NotContains(t, got, "[DONE]")
		assert.Equal(t, "worker_exited", r.Log.Request(t, "silent")["outcome"])
		assert.EqualValues(t, 3, turns.Load())
	}
}

// A response whose first events were sent runs again as the same response.
func TestSilentResponsesRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := apitest.LostInSilence(2, received)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler},
		func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`))
	body := bufio.NewReader(resp.Body)
	_, err := body.Peek(1)
	require.NoError(t, err)
	close(received)
	list := apitest.Events(t, apitest.Text(t, apitest.Unread(resp, body)))
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
	handler, turns := apitest.Once(func(_ context.Context, turn *appservertest.Turn) error {
		turn.Notify("rawResponseItem/completed", map[string]any{"item": map[string]any{
			"type": "function_call", "name": "rm", "arguments": "{}", "call_id": "c1",
		}})
		turn.Peer().Disconnect()
		return nil
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "worker_exited", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.EqualValues(t, 1, turns.Load())
}

// What the model endpoint refused, it would refuse again.
func TestFailedTurnsDoNotRunAgain(t *testing.T) {
	handler, turns := apitest.Once(func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.EqualValues(t, 1, turns.Load())
}

// A request that kills its workers does so three times and not more.
func TestTriesAreBounded(t *testing.T) {
	var turns atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turns.Add(1)
		return apitest.Disconnect(ctx, turn)
	}})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "3", resp.Header.Get("X-Codex-Attempts"))
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	assert.Equal(t, "worker_exited", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.EqualValues(t, 3, turns.Load())
	assert.Equal(t, "2", r.Retries(t, apitest.LostWorker))
}

// A worker that takes no turns and does not go away is not asked again: the
// request waits for another, within the deadline of the queue.
func TestStoppingWorkerIsNotAskedAgain(t *testing.T) {
	var asked atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"thread/start": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			asked.Add(1)
			p.Send(fmt.Appendf(nil,
				`{"id":%s,"error":{"code":-32600,"message":"server is shutting down","data":{"reason":"serverShuttingDown"}}}`, id))
			return true
		},
	}}, func(o *apitest.Options) { o.Queue.Timeout = 50 * time.Millisecond })
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "worker_not_ready", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.EqualValues(t, 1, asked.Load())
}

// A drain finishes what is in flight, also what has to run again for that.
func TestLostTurnsRunAgainDuringADrain(t *testing.T) {
	began, drained := make(chan struct{}), make(chan struct{})
	handler, _ := apitest.Once(func(ctx context.Context, turn *appservertest.Turn) error {
		close(began)
		<-drained
		return apitest.Disconnect(ctx, turn)
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	whole := make(chan *http.Response, 1)
	go func() { whole <- r.Chatting(t, apitest.Hello("")) }()
	apitest.Received(t, began)
	r.Pool.Drain()
	close(drained)
	resp := apitest.Received(t, whole)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
}

// How codex's silence and its -32001 come out of a start that takes too long.
func TestStartsThatTakeTooLong(t *testing.T) {
	for want, fault := range map[string]appservertest.Fault{apitest.LostStart: appservertest.Silent,
		apitest.LostOverloaded: appservertest.Overloaded} {
		wanted := []string{want, apitest.LostStart} // the time may be over between a question and its answer, too
		for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
			worker := &appservertest.Server{Faults: map[string]appservertest.Fault{method: fault}}
			r := apitest.NewRig(t, worker, func(o *apitest.Options) {
				o.Queue.Timeout, o.StartTimeout = 50*time.Millisecond, 20*time.Millisecond
			})
			apitest.Text(t, r.Chatting(t, apitest.Hello("")))
			lost := map[string]bool{}
			for _, reason := range wanted {
				lost[reason] = r.Retries(t, reason) != "0"
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
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
		body := apitest.Hello("")
		if i%2 == 0 {
			body = apitest.Hello(apitest.Streaming)
		}
		go func() { answers <- r.Chatting(t, body) }()
	}
	apitest.Received(t, all)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == turns })
	close(kill)
	tries := map[string]int{}
	for range 2 * turns {
		resp := apitest.Received(t, answers)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Contains(t, apitest.Text(t, resp), `"content":"Hello"`)
		tries[resp.Header.Get("X-Codex-Attempts")]++
	}
	assert.Equal(t, map[string]int{"1": turns, "2": turns}, tries)
	assert.EqualValues(t, 3*turns, begun.Load())
	assert.Equal(t, "16", r.Retries(t, apitest.LostWorker))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
	assert.Zero(t, r.Report().Queue.Depth)
}
