package admission_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// many is the element so many times.
func many(element string, n int) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// A body of more names and values than can be decoded at a reasonable price is refused
// on all ways in, and so is one that takes more memory than there is.
func TestHeavyBodiesAreRefused(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, func(o *apitest.Options) {
		o.BodyLimit, o.RequestMemory = 4<<20, 32<<20
	})
	calls := `{"role":"assistant","tool_calls":[` + many("{}", 9000) + `]}`
	chat := func(n int) string { return `{"model":"demo","messages":[` + many(calls, n) + `]}` }
	parts := `{"role":"user","content":[` + many(`{}`, 9000) + `]}`
	for _, body := range []string{chat(60), `{"model":"demo","input":[` + many(parts, 60) + `]}`} {
		path := "/v1/chat/completions"
		if strings.Contains(body, "input") {
			path = "/v1/responses"
		}
		resp := r.Do(t, http.MethodPost, path, body)
		assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "request_too_large", e.Code)
		assert.Contains(t, e.Message, "more than the limit of 500000")
	}
	k := r.Socket(t)
	k.Say(apitest.Create("", "["+many(parts, 60)+"]"))
	assert.Equal(t, "request_too_large", k.Hear().Error.Code)

	e := apitest.Failure(t, apitest.Text(t, r.Chatting(t, chat(50)))).Error
	assert.Equal(t, "request_too_large", e.Code)
	assert.Contains(t, e.Message, "7/8 of request_memory")
	assert.Equal(t, "tool_call_id_required", apitest.Failure(t, apitest.Text(t, r.Chatting(t, chat(20)))).Error.Code)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A key that has used up what it may use has no body decoded: not even what is wrong
// with it is found out.
func TestLimitsApplyBeforeDecoding(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=2 models=demo", "bob concurrent=1")
	entered, gate := make(chan struct{}, 1), make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		entered <- struct{}{}
		return apitest.Gated(gate, "x")(ctx, turn)
	}}, func(o *apitest.Options) { o.Keys = keys })
	code := func(secret, path, body string) string {
		return apitest.Failure(t, apitest.Text(t, r.Do(t, http.MethodPost, path, body, "Authorization", "Bearer "+secret))).Error.Code
	}
	const chats, responses = "/v1/chat/completions", "/v1/responses"
	wrong := `{"model":"demo","messages":7,"input":7}`
	assert.Equal(t, "model_not_found", code(secrets[0], chats, `{"model":"other","messages":7}`))
	assert.Equal(t, "invalid_type", code(secrets[0], chats, wrong))
	assert.Equal(t, "invalid_type", code(secrets[0], responses, wrong))
	for _, path := range []string{chats, responses} {
		assert.Equal(t, "rate_limited", code(secrets[0], path, wrong), "what was refused counts")
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_ = apitest.Text(t, r.Chatting(t, apitest.Hello(""), "Authorization", "Bearer "+secrets[1]))
	}()
	apitest.Received(t, entered)
	assert.Equal(t, "concurrency_exceeded", code(secrets[1], chats, wrong))
	close(gate)
	apitest.Received(t, answered)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Limiter.KeyUses()["bob"].Running == 0 })
	assert.Equal(t, "invalid_type", code(secrets[1], chats, wrong), "what was refused is over")
	assert.Equal(t, "invalid_type", code(secrets[1], chats, wrong))

	// What is not found before is found by the decoder.
	assert.Equal(t, "model_not_found",
		code(secrets[1], chats, `{"m\u006fdel":"other","messages":[{"role":"user","content":"x"}]}`))
}
