package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

// refusal is a way in which codex reports that the endpoint refuses a turn for the account.
type refusal struct {
	message string
	info    any
	reason  string // of the rotation
}

var usedUp = refusal{"You’ve hit your usage limit.", "usageLimitExceeded", "usage_limit"}

// fleet are workers by the names of their accounts, and the turns that each of them got.
type fleet struct {
	mu      sync.Mutex
	turns   map[string][]appservertest.Request
	ways    map[string]appservertest.Handler
	servers map[string]*appservertest.Server
}

// newFleet makes workers that answer with their names.
func newFleet(names ...string) *fleet {
	f := &fleet{
		turns: map[string][]appservertest.Request{}, ways: map[string]appservertest.Handler{},
		servers: map[string]*appservertest.Server{},
	}
	for _, name := range names {
		f.ways[name] = answering(someUsage, "I am ", name)
		f.servers[name] = &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			f.mu.Lock()
			f.turns[name] = append(f.turns[name], turn.Request)
			way := f.ways[name]
			f.mu.Unlock()
			return way(ctx, turn)
		}}
	}
	return f
}

// let changes how the worker answers.
func (f *fleet) let(name string, way appservertest.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ways[name] = way
}

func (f *fleet) refuses(name string, r refusal) { f.let(name, appservertest.Fail(r.message, r.info)) }

// got are the turns of the worker so far.
func (f *fleet) got(name string) []appservertest.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.turns[name])
}

// rig starts the server in front of the fleet, whose accounts serve in the order of their
// names.
func (f *fleet) rig(t testing.TB, changes ...func(*options)) *rig {
	t.Helper()
	r := newRig(t, nil, append([]func(*options){func(o *options) {
		o.others, o.ThreadCache = f.servers, 100
		o.policy = accounts.Policy{Rotation: accounts.Ordered, RotateAt: 0.05}
	}}, changes...)...)
	r.haveReadings(t)
	return r
}

// haveReadings waits for the first reading of every account: one that comes later would
// undo what a test says of an account.
func (r *rig) haveReadings(t testing.TB) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for limit, read := time.After(bound), false; !read; {
		select {
		case <-ticker.C:
		case <-limit:
			require.FailNow(t, "an account was never read")
		}
		read = !slices.ContainsFunc(r.pool.Book().Views(time.Now()),
			func(v accounts.View) bool { return v.Quota.At.IsZero() })
	}
}

func rotationOff(o *options) { o.policy.Rotation = accounts.Off }

func (r *rig) rotations(t *testing.T, from, reason string) string {
	t.Helper()
	return metric(t, r, `codex_turn_rotations_total{from="`+from+`",reason="`+reason+`"}`)
}

func (r *rig) state(t *testing.T, account string) accounts.State {
	t.Helper()
	v, known := r.pool.Book().View(account, time.Now())
	require.True(t, known)
	return v.State
}

// shapes are the requests of all endpoints that run a turn, and what they return of it.
var shapes = map[string]func(t *testing.T, r *rig) (answer string){
	"chat": func(t *testing.T, r *rig) string {
		return rotated(t, r.chatting(t, hello(""), "X-Request-Id", "rotated"))
	},
	"streamed": func(t *testing.T, r *rig) string {
		return rotated(t, r.chatting(t, hello(streaming), "X-Request-Id", "rotated"))
	},
	"completion": func(t *testing.T, r *rig) string {
		return rotated(t, r.completing(t, "", "X-Request-Id", "rotated"))
	},
	"response": func(t *testing.T, r *rig) string {
		return rotated(t, r.responding(t, asked("", `"hi"`), "X-Request-Id", "rotated"))
	},
	"streamed response": func(t *testing.T, r *rig) string {
		return rotated(t, r.responding(t, asked(streaming, `"hi"`), "X-Request-Id", "rotated"))
	},
	"WebSocket": func(t *testing.T, r *rig) string {
		k := r.socket(t, "X-Request-Id", "rotated")
		k.say(`{"type":"response.create",` + asked("", `"hi"`)[1:])
		end := k.response()
		require.Equal(t, "response.completed", end.Type)
		return fmt.Sprint(end.Response.Output)
	},
}

func rotated(t *testing.T, resp *http.Response) string {
	t.Helper()
	answer := text(t, resp)
	assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
	return answer
}

// A turn that is refused for quota before its client has any output runs on another
// account, whatever the form of the refusal and of the request.
func TestTurnsRotate(t *testing.T) {
	for _, refusal := range []refusal{
		usedUp,
		{"stream disconnected before completion: The usage limit has been reached", "other", "in_stream"},
		{"unexpected status 402 Payment Required: no credits", appservertest.HTTPInfo("httpConnectionFailed", 402),
			"payment_required"},
	} {
		for shape, request := range shapes {
			t.Run(refusal.reason+"/"+shape, func(t *testing.T) {
				f := newFleet("a", "b")
				f.refuses("a", refusal)
				r := f.rig(t)
				answer := request(t, r)
				assert.Contains(t, strings.NewReplacer(`"}`, "", "\n", "").Replace(answer), "b")
				assert.NotContains(t, answer, "error\":{")
				assert.Len(t, f.got("a"), 1)
				assert.Len(t, f.got("b"), 1)
				assert.Equal(t, f.got("a")[0].Items, f.got("b")[0].Items)
				assert.Equal(t, "1", r.rotations(t, "a", refusal.reason))
				assert.Equal(t, accounts.Exhausted, r.state(t, "a"))
				for _, reason := range []string{lostWorker, lostStopping, lostOverloaded, lostStart, lostInterrupted} {
					assert.Equal(t, "0", r.retries(t, reason))
				}
				assert.Equal(t, "1", metric(t, r, `codex_turns_total{outcome="rotated"}`))
				assert.Equal(t, "1", metric(t, r, `codex_turns_total{outcome="completed"}`))
				assert.Equal(t, 1, strings.Count(r.log.String(), `"msg":"turn refused for quota, it runs on another account"`))
				assert.Zero(t, r.pool.Inflight())
			})
		}
	}
}

// The line of the request has the account that served it.
func TestRotatedRequestsInTheJournal(t *testing.T) {
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	r := f.rig(t)
	rotated(t, r.chatting(t, hello(""), "X-Request-Id", "mine"))
	line := r.log.request(t, "mine")
	assert.Equal(t, "ok", line["outcome"])
	assert.Equal(t, "b", line["worker"])
	assert.InDelta(t, 2, line["attempts"], 0)
	assert.InDelta(t, 20, line["input_tokens"], 0)
}

// Each attempt has a span of its own.
func TestTraceOfARotation(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	r := f.rig(t, func(o *options) { o.Traces = tracer })
	rotated(t, r.chatting(t, hello(""), "Traceparent", clientSpan))
	_, inner := trace(t, out)
	require.Len(t, inner["turn"], 2)
	first, second := attributesOf(inner["turn"][0]), attributesOf(inner["turn"][1])
	assert.Equal(t, []any{"a", "rotated"}, []any{first["codex.worker"], first["codex.outcome"]})
	assert.Equal(t, []any{"b", "completed"}, []any{second["codex.worker"], second["codex.outcome"]})
	assert.EqualValues(t, 1, first["codex.attempt"])
	assert.EqualValues(t, 2, second["codex.attempt"])
}

// Without rotation the client gets the error, and the account is known to be exhausted.
func TestRefusalsWithoutRotation(t *testing.T) {
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	r := f.rig(t, rotationOff)
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "usage_limit_reached", failure(t, text(t, resp)).Error.Code)
	assert.Equal(t, accounts.Exhausted, r.state(t, "a"))
	assert.Empty(t, f.got("b"))
	assert.Equal(t, "0", r.rotations(t, "a", "usage_limit"))
}

// refusedAfter sends some of an answer before it refuses.
func refusedAfter(begin func(*appservertest.Turn)) appservertest.Handler {
	return func(_ context.Context, turn *appservertest.Turn) error {
		begin(turn)
		return &appservertest.Failure{Message: usedUp.message, Info: usedUp.info}
	}
}

// A stream with output of the model ends in an error, and the next turn of its conversation
// runs on another account.
func TestBegunStreamsDoNotRotate(t *testing.T) {
	f := newFleet("a", "b")
	f.let("a", refusedAfter(func(turn *appservertest.Turn) { turn.Begin("").Delta("so far") }))
	r := f.rig(t)
	resp := r.chatting(t, hello(streaming))
	endsInError(t, frames(t, resp), "insufficient_quota", "usage_limit_reached")
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Empty(t, f.got("b"))
	assert.Equal(t, "0", r.rotations(t, "a", "usage_limit"))
	assert.Equal(t, accounts.Exhausted, r.state(t, "a"))

	next := r.chatting(t, hello(streaming))
	assert.Equal(t, "1", next.Header.Get("X-Codex-Attempts"))
	assert.Contains(t, text(t, next), `"content":"b"`)
	assert.Len(t, f.got("a"), 1)
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
	f := newFleet("a", "b")
	interrupted := make(chan struct{})
	f.let("a", retrying(func(ctx context.Context, _ *appservertest.Turn) error {
		<-ctx.Done()
		close(interrupted)
		return ctx.Err()
	}))
	r := f.rig(t)
	assert.Contains(t, rotated(t, r.chatting(t, hello(""))), "I am b")
	received(t, interrupted)
	assert.Equal(t, "1", r.rotations(t, "a", "in_stream"))

	f.let("a", retrying(answering(someUsage, "after all")))
	resp := f.rig(t, rotationOff).chatting(t, hello(""))
	assert.Contains(t, text(t, resp), "after all")
}

// A whole answer was not sent before it is complete; so it can be had whole elsewhere.
func TestWholeAnswersRotateAfterText(t *testing.T) {
	f := newFleet("a", "b")
	f.let("a", refusedAfter(func(turn *appservertest.Turn) { turn.Begin("").Delta("half an ans") }))
	answer := rotated(t, f.rig(t).chatting(t, hello("")))
	assert.Contains(t, answer, "I am b")
	assert.NotContains(t, answer, "half")
}

// A call of a tool may have had an effect.
func TestTurnsThatCalledAToolDoNotRotate(t *testing.T) {
	f := newFleet("a", "b")
	f.let("a", refusedAfter(func(turn *appservertest.Turn) {
		turn.Notify("rawResponseItem/completed", map[string]any{"item": map[string]any{
			"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "exec", "input": "x", "status": "completed",
		}})
	}))
	r := f.rig(t)
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Empty(t, f.got("b"))
	assert.Equal(t, accounts.Exhausted, r.state(t, "a"))
}

// Tools, and the calls so far, are the same on the other account.
func TestToolsAreCarriedOver(t *testing.T) {
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	f.let("b", func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Call(ctx, "get_weather", `{"city":"Bonn"}`)
		return nil
	})
	r := f.rig(t)
	answer := rotated(t, r.chatting(t, `{"model":"demo","messages":[{"role":"user","content":"weather?"},`+
		`{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather",`+
		`"arguments":"{\"city\":\"Köln\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"rain"}],`+
		`"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}]}`))
	assert.Contains(t, answer, `"finish_reason":"tool_calls"`)
	a, b := f.got("a")[0], f.got("b")[0]
	assert.Equal(t, a.DynamicTools, b.DynamicTools)
	assert.Equal(t, a.Items, b.Items)
	assert.Len(t, b.Items, 3)
}

// Each of several choices rotates by itself.
func TestChoicesRotate(t *testing.T) {
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	r := f.rig(t)
	resp := r.chatting(t, hello(`"n":2,`))
	answer := text(t, resp)
	assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.Equal(t, 2, strings.Count(answer, `"finish_reason":"stop"`))
	assert.Len(t, f.got("b"), 2)
	assert.Equal(t, fmt.Sprint(len(f.got("a"))), r.rotations(t, "a", "usage_limit"))
}

// Rotations are no losses: they take none of the attempts of a lost turn.
func TestRotationsAreNoLosses(t *testing.T) {
	f := newFleet("a", "b")
	f.refuses("a", usedUp)
	var begun atomic.Int64
	f.let("b", func(_ context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) <= 2 {
			turn.Notify("turn/completed",
				map[string]any{"turn": map[string]any{"id": turn.ID, "status": "interrupted", "items": []any{}}})
			return nil
		}
		turn.Text("Hello")
		return nil
	})
	r := f.rig(t)
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusOK, resp.StatusCode, text(t, resp))
	assert.Equal(t, "4", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, "2", r.retries(t, lostInterrupted))
	assert.Equal(t, "1", r.rotations(t, "a", "usage_limit"))
}

// A limit on the rate, and a login that is not valid, rotate nothing.
func TestOtherRefusalsDoNotRotate(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal refusal
		status  int
		code    string
		state   accounts.State
		doubted bool
	}{
		"rate limit": {refusal{"exceeded retry limit, last status: 429 Too Many Requests",
			appservertest.HTTPInfo("responseTooManyFailedAttempts", 429), ""}, 429, "rate_limited",
			accounts.Available, true},
		"login": {refusal{"unexpected status 401 Unauthorized: x", appservertest.HTTPInfo("httpConnectionFailed", 401),
			""}, 503, "upstream_unauthorized", accounts.LoginInvalid, false},
		"unauthorized": {refusal{"Your access token could not be refreshed.", "unauthorized", ""}, 503,
			"upstream_unauthorized", accounts.LoginInvalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("a", "b")
			f.refuses("a", tc.refusal)
			r := f.rig(t)
			resp := r.chatting(t, hello(""))
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.code, failure(t, text(t, resp)).Error.Code)
			assert.Empty(t, f.got("b"))
			assert.Equal(t, tc.state, r.state(t, "a"))
			v, _ := r.pool.Book().View("a", time.Now())
			assert.Equal(t, tc.doubted, !v.Quota.DoubtedAt.IsZero(), "a reading is due")
			for _, reason := range []string{"usage_limit", "in_stream", "payment_required"} {
				assert.Equal(t, "0", r.rotations(t, "a", reason))
			}
		})
	}
}

var (
	planLacks = refusal{"To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
		"usageLimitExceeded", "model_refused"}
	modelUsedUp = refusal{"You’ve hit your usage limit for gpt-x. Switch to another model now, or try again later.",
		"usageLimitExceeded", "model_refused"}
)

// An account that refuses one model serves others: the turn runs elsewhere, and the account is taken from nobody.
func TestRefusedModelTakesNoAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal refusal
		status  int
		code    string
	}{
		"plan":  {planLacks, http.StatusNotFound, "model_not_found"},
		"limit": {modelUsedUp, http.StatusTooManyRequests, "usage_limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("a", "b")
			f.refuses("a", tc.refusal)
			r := f.rig(t)
			assert.Contains(t, rotated(t, r.chatting(t, hello(""))), "I am b")
			assert.Equal(t, "1", r.rotations(t, "a", tc.refusal.reason))
			assert.Equal(t, accounts.Available, r.state(t, "a"))

			f.refuses("b", tc.refusal)
			r = f.rig(t)
			resp := r.chatting(t, hello(""))
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, tc.code, failure(t, text(t, resp)).Error.Code)
			assert.Equal(t, accounts.Available, r.state(t, "a"))
			assert.Equal(t, accounts.Available, r.state(t, "b"))
		})
	}
}

// When every account has refused a turn, its client gets the refusal, and each account got
// the turn once.
func TestEveryAccountRefuses(t *testing.T) {
	for shape, body := range map[string]string{"whole": hello(""), "streamed": hello(streaming)} {
		t.Run(shape, func(t *testing.T) {
			f := newFleet("a", "b")
			f.refuses("a", usedUp)
			f.refuses("b", usedUp)
			r := f.rig(t)
			resp := r.chatting(t, body)
			assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			assert.Equal(t, "usage_limit_reached", failure(t, text(t, resp)).Error.Code)
			assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			assert.Len(t, f.got("a"), 1)
			assert.Len(t, f.got("b"), 1)
		})
	}
}

// The threads of a conversation on an account that it has left are closed.
func TestThreadsLeftBehindAreClosed(t *testing.T) {
	var talk talker
	f := newFleet("a", "b")
	f.let("a", talk.answer)
	f.let("b", talk.answer)
	r := f.rig(t)
	r.ask(t, conversation("", "", 1))
	r.ask(t, conversation("", "", 2))
	require.Equal(t, talk.threads[0], talk.threads[1], "a kept thread")
	require.NotContains(t, f.servers["a"].Requests(), "thread/unsubscribe")
	r.pool.Book().Refuse("a", time.Time{}, time.Now())
	r.ask(t, conversation("", "", 3))
	assert.Equal(t, 5, talk.items[2], "the whole history")
	await(t, tick(t), func() bool { return slices.Contains(f.servers["a"].Requests(), "thread/unsubscribe") })
	r.ask(t, conversation("", "", 4))
	assert.Equal(t, talk.threads[2], talk.threads[3], "the thread on the account after it")
}
