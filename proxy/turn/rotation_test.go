package turn_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/workers/accounts"
)

func rotationOff(o *apitest.Options) { o.Policy.Rotation = accounts.Off }

// shapes are the requests of all endpoints that run a turn, and what they return of it.
var shapes = map[string]func(t *testing.T, r *apitest.Rig) (answer string){
	"chat": func(t *testing.T, r *apitest.Rig) string {
		return rotated(t, r.Chatting(t, apitest.Hello(""), "X-Request-Id", "rotated"))
	},
	"streamed": func(t *testing.T, r *apitest.Rig) string {
		return rotated(t, r.Chatting(t, apitest.Hello(apitest.Streaming), "X-Request-Id", "rotated"))
	},
	"completion": func(t *testing.T, r *apitest.Rig) string {
		return rotated(t, r.Completing(t, "", "X-Request-Id", "rotated"))
	},
	"response": func(t *testing.T, r *apitest.Rig) string {
		return rotated(t, r.Responding(t, apitest.Asked("", `"hi"`), "X-Request-Id", "rotated"))
	},
	"streamed response": func(t *testing.T, r *apitest.Rig) string {
		return rotated(t, r.Responding(t, apitest.Asked(apitest.Streaming, `"hi"`), "X-Request-Id", "rotated"))
	},
	"WebSocket": func(t *testing.T, r *apitest.Rig) string {
		k := r.Socket(t, "X-Request-Id", "rotated")
		k.Say(`{"type":"response.create",` + apitest.Asked("", `"hi"`)[1:])
		end := k.Response()
		require.Equal(t, "response.completed", end.Type)
		return fmt.Sprint(end.Response.Output)
	},
}

func rotated(t *testing.T, resp *http.Response) string {
	t.Helper()
	answer := apitest.Text(t, resp)
	assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	return answer
}

// A turn that is refused for quota before its client has any output runs on another
// account, whatever the form of the refusal and of the request.
func TestTurnsRotate(t *testing.T) {
	for _, refusal := range []apitest.Refusal{
		apitest.UsedUp,
		{Message: "stream disconnected before completion: The usage limit has been reached", Info: "other", Reason: "in_stream"},
		{Message: "unexpected status 402 Payment Required: no credits", Info: appservertest.HTTPInfo("httpConnectionFailed", 402),
			Reason: "payment_required"},
	} {
		for shape, request := range shapes {
			t.Run(refusal.Reason+"/"+shape, func(t *testing.T) {
				f := apitest.NewFleet("a", "b")
				f.Refuses("a", refusal)
				r := f.Rig(t)
				answer := request(t, r)
				assert.Contains(t, strings.NewReplacer(`"}`, "", "\n", "").Replace(answer), "b")
				assert.NotContains(t, answer, "error\":{")
				assert.Len(t, f.Got("a"), 1)
				assert.Len(t, f.Got("b"), 1)
				assert.Equal(t, f.Got("a")[0].Items, f.Got("b")[0].Items)
				assert.Equal(t, "1", r.Rotations(t, "a", refusal.Reason))
				assert.Equal(t, accounts.Exhausted, r.State(t, "a"))
				for _, reason := range []string{apitest.LostWorker, apitest.LostStopping, apitest.LostOverloaded, apitest.LostStart, apitest.LostInterrupted} {
					assert.Equal(t, "0", r.Retries(t, reason))
				}
				assert.Equal(t, "1", apitest.Metric(t, r, `codex_turns_total{outcome="rotated"}`))
				assert.Equal(t, "1", apitest.Metric(t, r, `codex_turns_total{outcome="completed"}`))
				assert.Equal(t, 1, strings.Count(r.Log.String(), `"msg":"turn refused for quota, it runs on another account"`))
				assert.Zero(t, r.Pool.Inflight())
			})
		}
	}
}

// The line of the request has the account that served it.
func TestRotatedRequestsInTheJournal(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	r := f.Rig(t)
	rotated(t, r.Chatting(t, apitest.Hello(""), "X-Request-Id", "mine"))
	line := r.Log.Request(t, "mine")
	assert.Equal(t, "ok", line["outcome"])
	assert.Equal(t, "b", line["worker"])
	assert.InDelta(t, 2, line["attempts"], 0)
	assert.InDelta(t, 20, line["input_tokens"], 0)
}

// Each attempt has a span of its own.
func TestTraceOfARotation(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	r := f.Rig(t, func(o *apitest.Options) { o.Traces = tracer })
	rotated(t, r.Chatting(t, apitest.Hello(""), "Traceparent", apitest.ClientSpan))
	_, inner := apitest.Trace(t, out)
	require.Len(t, inner["turn"], 2)
	first, second := apitest.AttributesOf(inner["turn"][0]), apitest.AttributesOf(inner["turn"][1])
	assert.Equal(t, []any{"a", "rotated"}, []any{first["codex.worker"], first["codex.outcome"]})
	assert.Equal(t, []any{"b", "completed"}, []any{second["codex.worker"], second["codex.outcome"]})
	assert.EqualValues(t, 1, first["codex.attempt"])
	assert.EqualValues(t, 2, second["codex.attempt"])
}

// Without rotation the client gets the error, and the account is known to be exhausted.
func TestRefusalsWithoutRotation(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	r := f.Rig(t, rotationOff)
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "usage_limit_reached", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.Equal(t, accounts.Exhausted, r.State(t, "a"))
	assert.Empty(t, f.Got("b"))
	assert.Equal(t, "0", r.Rotations(t, "a", "usage_limit"))
}

// refusedAfter sends some of an answer before it refuses.
func refusedAfter(begin func(*appservertest.Turn)) appservertest.Handler {
	return func(_ context.Context, turn *appservertest.Turn) error {
		begin(turn)
		return &appservertest.Failure{Message: apitest.UsedUp.Message, Info: apitest.UsedUp.Info}
	}
}

// A stream with output of the model ends in an error, and the next turn of its conversation
// runs on another account.
func TestBegunStreamsDoNotRotate(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Let("a", refusedAfter(func(turn *appservertest.Turn) { turn.Begin("").Delta("so far") }))
	r := f.Rig(t)
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	apitest.EndsInError(t, apitest.Frames(t, resp), "insufficient_quota", "usage_limit_reached")
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Empty(t, f.Got("b"))
	assert.Equal(t, "0", r.Rotations(t, "a", "usage_limit"))
	assert.Equal(t, accounts.Exhausted, r.State(t, "a"))

	next := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, "1", next.Header.Get("X-Codex-Attempts"))
	assert.Contains(t, apitest.Text(t, next), `"content":"b"`)
	assert.Len(t, f.Got("a"), 1)
}

// A turn rotates as soon as codex reports the usage limit in a stream, and does not wait for
// codex's retries. Without rotation codex may have its retries.
func TestTurnsRotateBeforeCodexRetries(t *testing.T) {
	retrying := func(then appservertest.Handler) appservertest.Handler {
		return func(ctx context.Context, turn *appservertest.Turn) error {
			turn.Retry("Reconnecting... 1/5", appservertest.HTTPInfo("responseStreamDisconnected", 0),
				"stream disconnected before completion: The usage limit has been reached")
			return then(ctx, turn)
		}
	}
	f := apitest.NewFleet("a", "b")
	interrupted := make(chan struct{})
	f.Let("a", retrying(func(ctx context.Context, _ *appservertest.Turn) error {
		<-ctx.Done()
		close(interrupted)
		return ctx.Err()
	}))
	r := f.Rig(t)
	assert.Contains(t, rotated(t, r.Chatting(t, apitest.Hello(""))), "I am b")
	apitest.Received(t, interrupted)
	assert.Equal(t, "1", r.Rotations(t, "a", "in_stream"))

	f.Let("a", retrying(apitest.Answering(apitest.SomeUsage, "after all")))
	resp := f.Rig(t, rotationOff).Chatting(t, apitest.Hello(""))
	assert.Contains(t, apitest.Text(t, resp), "after all")
}

// A whole answer was not sent before it is complete; so it can be had whole elsewhere.
func TestWholeAnswersRotateAfterText(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Let("a", refusedAfter(func(turn *appservertest.Turn) { turn.Begin("").Delta("half an ans") }))
	answer := rotated(t, f.Rig(t).Chatting(t, apitest.Hello("")))
	assert.Contains(t, answer, "I am b")
	assert.NotContains(t, answer, "half")
}

// A call of a tool may have had an effect.
func TestTurnsThatCalledAToolDoNotRotate(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Let("a", refusedAfter(func(turn *appservertest.Turn) {
		turn.Notify("rawResponseItem/completed", map[string]any{"item": map[string]any{
			"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "exec", "input": "x", "status": "completed",
		}})
	}))
	r := f.Rig(t)
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Empty(t, f.Got("b"))
	assert.Equal(t, accounts.Exhausted, r.State(t, "a"))
}

// Tools, and the calls so far, are the same on the other account.
func TestToolsAreCarriedOver(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	f.Let("b", func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "get_weather", `{"city":"Bonn"}`)
		return nil
	})
	r := f.Rig(t)
	answer := rotated(t, r.Chatting(t, `{"model":"demo","messages":[{"role":"user","content":"weather?"},`+
		`{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather",`+
		`"arguments":"{\"city\":\"Köln\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"rain"}],`+
		`"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}]}`))
	assert.Contains(t, answer, `"finish_reason":"tool_calls"`)
	a, b := f.Got("a")[0], f.Got("b")[0]
	assert.Equal(t, a.DynamicTools, b.DynamicTools)
	assert.Equal(t, a.Items, b.Items)
	assert.Len(t, b.Items, 3)
}

// Each of several choices rotates by itself.
func TestChoicesRotate(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	r := f.Rig(t)
	resp := r.Chatting(t, apitest.Hello(`"n":2,`))
	answer := apitest.Text(t, resp)
	assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.Equal(t, 2, strings.Count(answer, `"finish_reason":"stop"`))
	assert.Len(t, f.Got("b"), 2)
	assert.Equal(t, fmt.Sprint(len(f.Got("a"))), r.Rotations(t, "a", "usage_limit"))
}

// Rotations are no losses: they take none of the attempts of a lost turn.
func TestRotationsAreNoLosses(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	f.Refuses("a", apitest.UsedUp)
	var begun atomic.Int64
	f.Let("b", func(_ context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) <= 2 {
			turn.Notify("turn/completed",
				map[string]any{"turn": map[string]any{"id": turn.ID, "status": "interrupted", "items": []any{}}})
			return nil
		}
		turn.Text("Hello")
		return nil
	})
	r := f.Rig(t)
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusOK, resp.StatusCode, apitest.Text(t, resp))
	assert.Equal(t, "4", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "2", r.Retries(t, apitest.LostInterrupted))
	assert.Equal(t, "1", r.Rotations(t, "a", "usage_limit"))
}

// A limit on the rate, and a login that is not valid, rotate nothing.
func TestOtherRefusalsDoNotRotate(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal apitest.Refusal
		status  int
		code    string
		state   accounts.State
		doubted bool
	}{
		"rate limit": {apitest.Refusal{Message: "exceeded retry limit, last status: 429 Too Many Requests",
			Info: appservertest.HTTPInfo("responseTooManyFailedAttempts", 429), Reason: ""}, 429, "rate_limited",
			accounts.Available, true},
		"login": {apitest.Refusal{Message: "unexpected status 401 Unauthorized: x", Info: appservertest.HTTPInfo("httpConnectionFailed", 401),
			Reason: ""}, 503, "upstream_unauthorized", accounts.LoginInvalid, false},
		"unauthorized": {apitest.Refusal{Message: "Your access token could not be refreshed.", Info: "unauthorized", Reason: ""}, 503,
			"upstream_unauthorized", accounts.LoginInvalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := apitest.NewFleet("a", "b")
			f.Refuses("a", tc.refusal)
			r := f.Rig(t)
			resp := r.Chatting(t, apitest.Hello(""))
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.code, apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
			assert.Empty(t, f.Got("b"))
			assert.Equal(t, tc.state, r.State(t, "a"))
			v, _ := r.Pool.AccountStore().View("a", time.Now())
			assert.Equal(t, tc.doubted, !v.Quota.DoubtedAt.IsZero(), "a reading is due")
			for _, reason := range []string{"usage_limit", "in_stream", "payment_required"} {
				assert.Equal(t, "0", r.Rotations(t, "a", reason))
			}
		})
	}
}

var (
	planLacks = apitest.Refusal{Message: "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
		Info: "usageLimitExceeded", Reason: "model_refused"}
	modelUsedUp = apitest.Refusal{Message: "You’ve hit your usage limit for gpt-x. Switch to another model now, or try again later.",
		Info: "usageLimitExceeded", Reason: "model_refused"}
)

// An account that refuses one model serves others: the turn runs elsewhere, and the account is taken from nobody.
func TestRefusedModelTakesNoAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal apitest.Refusal
		status  int
		code    string
	}{
		"plan":  {planLacks, http.StatusNotFound, "model_not_found"},
		"limit": {modelUsedUp, http.StatusTooManyRequests, "usage_limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			f := apitest.NewFleet("a", "b")
			f.Refuses("a", tc.refusal)
			r := f.Rig(t)
			assert.Contains(t, rotated(t, r.Chatting(t, apitest.Hello(""))), "I am b")
			assert.Equal(t, "1", r.Rotations(t, "a", tc.refusal.Reason))
			assert.Equal(t, accounts.Available, r.State(t, "a"))

			f.Refuses("b", tc.refusal)
			r = f.Rig(t)
			resp := r.Chatting(t, apitest.Hello(""))
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.code, apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
			assert.Equal(t, accounts.Available, r.State(t, "a"))
			assert.Equal(t, accounts.Available, r.State(t, "b"))
		})
	}
}

// When every account has refused a turn, its client gets the refusal, and each account got
// the turn once.
func TestEveryAccountRefuses(t *testing.T) {
	for shape, body := range map[string]string{"whole": apitest.Hello(""), "streamed": apitest.Hello(apitest.Streaming)} {
		t.Run(shape, func(t *testing.T) {
			f := apitest.NewFleet("a", "b")
			f.Refuses("a", apitest.UsedUp)
			f.Refuses("b", apitest.UsedUp)
			r := f.Rig(t)
			resp := r.Chatting(t, body)
			assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			assert.Equal(t, "usage_limit_reached", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
			assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			assert.Len(t, f.Got("a"), 1)
			assert.Len(t, f.Got("b"), 1)
		})
	}
}

// The threads of a conversation on an account that it has left are closed.
func TestThreadsLeftBehindAreClosed(t *testing.T) {
	var talk apitest.Talker
	f := apitest.NewFleet("a", "b")
	f.Let("a", talk.Answer)
	f.Let("b", talk.Answer)
	r := f.Rig(t)
	r.Ask(t, apitest.Conversation("", "", 1))
	r.Ask(t, apitest.Conversation("", "", 2))
	require.Equal(t, talk.Threads[0], talk.Threads[1], "a kept thread")
	require.NotContains(t, f.Servers["a"].Requests(), "thread/unsubscribe")
	r.Pool.AccountStore().Refuse("a", time.Time{}, time.Now())
	r.Ask(t, apitest.Conversation("", "", 3))
	assert.Equal(t, 5, talk.Items[2], "the whole history")
	apitest.Await(t, apitest.Tick(t), func() bool { return slices.Contains(f.Servers["a"].Requests(), "thread/unsubscribe") })
	r.Ask(t, apitest.Conversation("", "", 4))
	assert.Equal(t, talk.Threads[2], talk.Threads[3], "the thread on the account after it")
}
