package messages_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/workers/accounts"
)

// A worker that is killed before the client has a byte of output is not noticed.
func TestLostMessagesRunAgain(t *testing.T) {
	afterReasoning := func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Reasoning("hm")
		return apitest.Disconnect(ctx, turn)
	}
	for name, die := range map[string]appservertest.Handler{
		"before text": apitest.Disconnect, "after reasoning that is not shown": afterReasoning,
	} {
		t.Run(name, func(t *testing.T) {
			apitest.BothForms(t, func(t *testing.T, form string) {
				handler, turns := apitest.Once(die)
				r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
				resp := r.Messaging(t, apitest.Greet(form), "X-Request-Id", "again")
				assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
				m := readMessage(t, resp)
				assert.Equal(t, []string{"Hello"}, m.texts())
				assert.EqualValues(t, 2, turns.Load())
				line := r.Log.Request(t, "again")
				assert.Equal(t, "ok", line["outcome"])
				assert.InDelta(t, 2, line["attempts"], 0)
				assert.Equal(t, "1", r.Retries(t, apitest.LostWorker))
			})
		})
	}
}

// A whole message can be lost with its last word and still be had whole; a stream with output
// of the model does not run again.
func TestMessagesLostAfterText(t *testing.T) {
	got := make(chan struct{})
	half := func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("half an ans")
		<-got
		turn.Peer().Disconnect()
		return nil
	}
	handler, turns := apitest.Once(half)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	nextEvent(t, body)
	close(got)
	failsAfter(t, sentEvents(t, apitest.Unread(resp, body)), "overloaded_error")
	assert.EqualValues(t, 1, turns.Load())

	handler, _ = apitest.Once(half)
	r = apitest.NewRig(t, &appservertest.Server{Handler: handler})
	assert.Equal(t, []string{"Hello"}, readMessage(t, r.Messaging(t, apitest.Greet(""))).texts())
}

// A ping begins the stream, and no output: the turn can still run again, and the message begins
// once.
func TestPings(t *testing.T) {
	lose, gate := make(chan struct{}), make(chan struct{})
	handler, _ := apitest.Once(func(ctx context.Context, turn *appservertest.Turn) error {
		<-lose
		return apitest.Disconnect(ctx, turn)
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if err := handler(ctx, turn); err != nil || turn.Peer() == nil {
			return err
		}
		<-gate
		return nil
	}}, func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	assert.Equal(t, "message_start", nextEvent(t, body).name)
	for range 3 {
		assert.Equal(t, "ping", nextEvent(t, body).name)
	}
	close(lose)
	var rest []sentEvent
	for e := nextEvent(t, body); ; e = nextEvent(t, body) {
		if rest = append(rest, e); strings.Contains(e.data, "Hello") {
			break
		}
	}
	for pings := 0; pings < 2; { // also between the output and the end
		e := nextEvent(t, body)
		if rest = append(rest, e); e.name == "ping" {
			pings++
		}
	}
	close(gate)
	rest = append(rest, sentEvents(t, apitest.Unread(resp, body))...)
	begun := 0
	for _, e := range rest {
		if e.name == "message_start" {
			begun++
		}
	}
	assert.Zero(t, begun, "it has begun already")
	assert.Equal(t, "message_stop", rest[len(rest)-1].name)
}

// A client may switch pings off; the one at the beginning is part of every stream.
func TestPingsAreOff(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "", "text")},
		func(o *apitest.Options) { o.Keepalive = time.Millisecond })
	quiet := make(chan []sentEvent, 1)
	go func() {
		quiet <- sentEvents(t, r.Messaging(t, apitest.Greet(apitest.Streaming), "X-No-Keepalive", "1"))
	}()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 1 })
	body := bufio.NewReader(r.Messaging(t, apitest.Greet(apitest.Streaming)).Body)
	for range 5 {
		nextEvent(t, body)
	}
	close(gate)
	pings := 0
	for _, e := range apitest.Received(t, quiet) {
		if e.name == "ping" {
			pings++
		}
	}
	assert.Equal(t, 1, pings)
}

func TestMessagesRotate(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		f := apitest.NewFleet("a", "b")
		f.Refuses("a", apitest.UsedUp)
		r := f.Rig(t)
		resp := r.Messaging(t, apitest.Greet(form))
		assert.Equal(t, "2", resp.Header.Get("X-Codex-Attempts"))
		assert.Equal(t, []string{"I am b"}, readMessage(t, resp).texts())
	})
}

func TestExhaustedAccountsOfMessages(t *testing.T) {
	r := apitest.TwoAccounts(t, func(p *accounts.Policy) {})
	soon := apitest.InAWhile()
	apitest.Exhaust(r, soon, soon)
	apitest.BothForms(t, func(t *testing.T, form string) {
		resp := r.Messaging(t, apitest.Greet(form))
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		assert.Equal(t, "true", resp.Header.Get("X-Should-Retry"), "libraries come back")
		kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "rate_limit_error", kind)
		assert.Contains(t, message, soon.UTC().Format(time.RFC3339))
	})
}

// Messages count for the limits and the usage of their key.
func TestMessagesCount(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=2 tokens-per-day=1000")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x")}, func(o *apitest.Options) { o.Keys = keys })
	for i, form := range []string{"", apitest.Streaming} {
		resp := r.Messaging(t, apitest.Greet(form), "X-Api-Key", secrets[0])
		readMessage(t, resp)
		assert.Equal(t, "2", resp.Header.Get("Anthropic-Ratelimit-Requests-Limit"))
		assert.Equal(t, []string{"1", "0"}[i], resp.Header.Get("Anthropic-Ratelimit-Requests-Remaining"))
		assert.Equal(t, "973", resp.Header.Get("Anthropic-Ratelimit-Tokens-Remaining"))
	}
	resp := r.Messaging(t, apitest.Greet(""), "X-Api-Key", secrets[0])
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Regexp(t, "^[1-9][0-9]*$", resp.Header.Get("Retry-After"))
	kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
	assert.Equal(t, "rate_limit_error", kind)
	assert.Contains(t, message, "requests-per-minute=2")
	metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "", "X-Api-Key", secrets[0]))
	assert.Contains(t, metrics, `codex_usage_requests_total{key="alice",model="demo"} 2`)
	assert.Contains(t, metrics, `codex_usage_tokens_total{key="alice",kind="input",model="demo"} 40`)
	assert.Contains(t, metrics, `codex_http_requests_total{method="POST",route="/v1/messages",status="429"} 1`)
}

// A message is charged for its body until it begins, and for its answer until it ends.
func TestMemoryOfMessages(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "", "x")})
	for _, form := range []string{"", apitest.Streaming} {
		answered := make(chan *http.Response, 1)
		body := strings.Replace(apitest.Greet(form), "hello", strings.Repeat("x", 90<<10), 1)
		go func() { answered <- r.Messaging(t, body) }()
		apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 1 })
		assert.InDelta(t, 2*90<<10, r.Memory.Bytes(), 4000, "as it is sent")
		gate <- struct{}{}
		readMessage(t, apitest.Received(t, answered))
		apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 && r.Pool.Inflight() == 0 })
	}
}
