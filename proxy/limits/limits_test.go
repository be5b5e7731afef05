package limits_test

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/modelname"
)

const duration = `^([0-9]+h)?([0-9]+m)?[0-9.]+s$|^[0-9]+ms$`

func TestLimitHeaders(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=3 tokens-per-minute=30", "bob tokens-per-day=1000", "carol")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x")}, func(o *apitest.Options) { o.Keys = keys })
	ask := func(secret, extra string) *http.Response {
		resp := r.Chatting(t, apitest.Hello(extra), "Authorization", "Bearer "+secret)
		apitest.Text(t, resp)
		return resp
	}
	limits := func(resp *http.Response) map[string]string {
		found := map[string]string{}
		for name := range resp.Header {
			if what, ok := strings.CutPrefix(name, "X-Ratelimit-"); ok {
				found[what] = resp.Header.Get(name)
			}
		}
		return found
	}
	// 27 tokens each: a whole answer knows what it has cost, the header of a stream cannot. One
	// token comes back in two seconds.
	began := time.Now()
	for i, extra := range []string{"", apitest.Streaming} {
		resp := ask(secrets[0], extra)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		got := limits(resp)
		assert.Len(t, got, 6)
		assert.Equal(t, "3", got["Limit-Requests"])
		assert.Equal(t, []string{"2", "1"}[i], got["Remaining-Requests"])
		assert.Regexp(t, duration, got["Reset-Requests"])
		assert.Equal(t, "30", got["Limit-Tokens"])
		left, err := strconv.Atoi(got["Remaining-Tokens"])
		require.NoError(t, err)
		assert.GreaterOrEqual(t, left, 3)
		assert.LessOrEqual(t, left, 3+int(time.Since(began)/(2*time.Second))+1)
		assert.Regexp(t, duration, got["Reset-Tokens"])
	}
	resp := r.Chatting(t, apitest.Hello(""), "Authorization", "Bearer "+secrets[0])
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Regexp(t, "^[1-9][0-9]*$", resp.Header.Get("Retry-After"))
	assert.Equal(t, "0", limits(resp)["Remaining-Tokens"])
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "rate_limit_error", e.Type)
	assert.Equal(t, "rate_limited", e.Code)
	assert.Contains(t, e.Message, "tokens-per-minute=30")
	resp = r.Do(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+secrets[0])
	apitest.Text(t, resp)
	assert.Len(t, limits(resp), 6, "every answer")

	got := limits(ask(secrets[1], ""))
	assert.Equal(t, "1000", got["Limit-Tokens"])
	assert.Equal(t, "973", got["Remaining-Tokens"])
	assert.Len(t, got, 3)
	assert.Empty(t, limits(ask(secrets[2], "")), "no limit, no header")
}

func TestDayIsUsedUp(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice tokens-per-day=20")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x")}, func(o *apitest.Options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	apitest.Text(t, r.Chatting(t, apitest.Hello(""), "Authorization", bearer, "X-Request-Id", "first"))
	r.Log.Request(t, "first")
	resp := r.Chatting(t, apitest.Hello(""), "Authorization", bearer)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "insufficient_quota", e.Type)
	assert.Equal(t, "insufficient_quota", e.Code)
}

// Who has the last of an answer may ask again at once, on another connection: the
// worker may still be saying goodbye to the turn.
func TestConcurrentPlaceIsFreeWithTheAnswer(t *testing.T) {
	t.Parallel()
	keys, secrets := apitest.WithKeys(t, "alice concurrent=1 requests-per-minute=100")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.CallingTools, Faults: map[string]appservertest.Fault{
		"turn/interrupt": appservertest.Silent, "thread/unsubscribe": appservertest.Silent,
	}}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys, o.Max = keys, 8 })
	r.Client.Transport.(*http.Transport).DisableKeepAlives = true
	alice := []string{"Authorization", "Bearer " + secrets[0]}
	for range 2 {
		assert.Contains(t, apitest.Text(t, r.Chatting(t, apitest.Hello(apitest.WeatherTools), alice...)), "Rome")
		assert.Contains(t, apitest.Text(t, r.Chatting(t, apitest.Hello(`"n":2,`+apitest.WeatherTools), alice...)), "must not be larger")
		stream := bufio.NewReader(r.Chatting(t, apitest.Hello(apitest.Streaming+apitest.WeatherTools), alice...).Body)
		for apitest.Frame(t, stream) != "data: [DONE]" {
		}
		assert.Contains(t, apitest.Text(t,
			r.Responding(t, apitest.Asked(`"tools":[{"type":"function","name":"weather"},{"type":"function","name":"time"}],`, `"q"`), alice...)), "Rome")
	}
}

// A place is held until the whole answer is out, or the client has gone.
func TestConcurrentRequests(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice concurrent=1", "bob")
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		entered <- struct{}{}
		return apitest.Gated(gate, "", "x")(ctx, turn)
	}}, func(o *apitest.Options) { o.Keys = keys })
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions",
			strings.NewReader(apitest.Hello("")))
		if err == nil {
			req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {alice},
				"X-Request-Id": {"left"}}
			var resp *http.Response
			if resp, err = r.Client.Do(req); err == nil {
				err = resp.Body.Close()
			}
		}
		first <- err
	}()
	apitest.Received(t, entered)
	resp := r.Chatting(t, apitest.Hello(""), "Authorization", alice)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	assert.Equal(t, "concurrency_exceeded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/v1/models", "", "Authorization", alice).StatusCode,
		"lists are no turns")

	leave()
	assert.ErrorIs(t, apitest.Received(t, first), context.Canceled)
	r.Log.Request(t, "left")
	close(gate)
	assert.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello(""), "Authorization", alice).StatusCode)
	assert.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello(""), "Authorization", bob).StatusCode)
}

// What was revoked is refused from the next request on, on connections that are
// open, too.
func TestRevokedKeyIsRefusedAtOnce(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice", "bob")
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, func(o *apitest.Options) { o.Keys = keys })
	status := func(secret string) int {
		resp := r.Chatting(t, apitest.Hello(""), "Authorization", "Bearer "+secret)
		apitest.Text(t, resp)
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusOK, status(secrets[0]))
	_, bob, _ := strings.Cut(keys.Text(), "\n")
	require.NoError(t, keys.Replace(bob))
	assert.Equal(t, http.StatusUnauthorized, status(secrets[0]))
	assert.Equal(t, http.StatusOK, status(secrets[1]))
	keys.Require()
	require.NoError(t, keys.Replace(""))
	assert.Equal(t, http.StatusUnauthorized, status(secrets[1]), "the last key's end opens nothing")
}

// A response is a request like any other: limits, usage, aliases.
func TestLimitsOfResponses(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=2 tokens-per-day=1000 models=fast")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x")}, func(o *apitest.Options) {
		o.Keys, o.Aliases = keys, map[string]modelname.Alias{"fast": {Model: "demo", Effort: "low"}}
	})
	ask := func(model, id string) *http.Response {
		return r.Do(t, http.MethodPost, "/v1/responses", `{"model":"`+model+`","input":"hi","store":false}`,
			"Authorization", "Bearer "+secrets[0], "X-Request-Id", id)
	}
	resp := ask("fast", "first")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("X-Ratelimit-Remaining-Requests"))
	assert.Contains(t, apitest.Text(t, resp), `"model":"fast"`)
	assert.Equal(t, "fast", r.Log.Request(t, "first")["model"])
	assert.Equal(t, http.StatusNotFound, ask("demo", "hidden").StatusCode)
	apitest.Text(t, ask("fast", "second"))
	resp = ask("fast", "third")
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "rate_limited", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	r.Log.Request(t, "second")
	assert.Equal(t, "40", apitest.Metric(t, r, `codex_usage_tokens_total{key="alice",kind="input",model="fast"}`))
}

// Several choices are one request, at the price of all of them, and a turn each to
// the limits. Each knows what its key may see.
func TestChoicesCountTogether(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice concurrent=3 requests-per-minute=20 models=demo,nothing")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, "x"),
		Models: []appservertest.Model{{ID: "demo"}, {ID: "nothing-else"}}},
		func(o *apitest.Options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	resp := r.Chatting(t, apitest.Hello(`"n":3,`), "Authorization", bearer, "X-Request-Id", "three")
	apitest.Text(t, resp)
	assert.Equal(t, "17", resp.Header.Get("X-Ratelimit-Remaining-Requests"))
	resp = r.Chatting(t, apitest.Hello(`"n":4,`), "Authorization", bearer)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "n", *e.Param)
	assert.Contains(t, e.Message, "concurrent=3")
	r.Log.Request(t, "three")
	assert.Equal(t, "1", apitest.Metric(t, r, `codex_usage_requests_total{key="alice",model="demo"}`))
	assert.Equal(t, "60", apitest.Metric(t, r, `codex_usage_tokens_total{key="alice",kind="input",model="demo"}`))
	for _, n := range []string{"1", "2"} {
		resp := r.Chatting(t, `{"n":`+n+`,"model":"nothing","messages":[{"role":"user","content":"x"}]}`,
			"Authorization", bearer)
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		assert.NotContains(t, apitest.Text(t, resp), "nothing-else", n)
	}
}
