package messages_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// anthropicTypes are the types of errors by their status.
var anthropicTypes = map[int]string{400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error",
	504: "timeout_error", 529: "overloaded_error"}

// Every way in which codex lets a turn fail, in Anthropic's form.
func TestFailedMessages(t *testing.T) {
	var i int
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: apitest.TurnFailures[i].Message, Info: apitest.TurnFailures[i].Info}
	}})
	for n, tc := range apitest.TurnFailures {
		i = n
		status := tc.Status
		if status == http.StatusServiceUnavailable {
			status = 529 // Anthropic's libraries send the request again
		}
		apitest.BothForms(t, func(t *testing.T, form string) {
			resp := r.Messaging(t, apitest.Greet(form))
			assert.Equal(t, status, resp.StatusCode, tc.Name)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			assert.Equal(t, tc.RetryAfter, resp.Header.Get("Retry-After"), tc.Name)
			kind, _, id := apitest.AnthropicFailure(t, apitest.Text(t, resp))
			assert.Equal(t, anthropicTypes[status], kind, tc.Name)
			assert.Equal(t, resp.Header.Get("Request-Id"), id)
			assert.Equal(t, tc.Code, r.Log.Request(t, id)["outcome"])
		})
	}
}

// Claude Code compacts a conversation by these words.
func TestMessagesThatAreTooLong(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail("too long", "contextWindowExceeded")})
	_, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, r.Messaging(t, apitest.Greet(""))))
	assert.Contains(t, message, "prompt is too long")
}

// failsAfter asserts that a stream has events, then one event error, and no end.
func failsAfter(t *testing.T, got []sentEvent, kind string) {
	t.Helper()
	require.NotEmpty(t, got)
	last := got[len(got)-1]
	assert.Equal(t, "error", last.name)
	failed, _, id := apitest.AnthropicFailure(t, last.data)
	assert.Equal(t, kind, failed)
	assert.NotEmpty(t, id)
	for _, e := range got[:len(got)-1] {
		assert.NotContains(t, []string{"error", "message_delta", "message_stop"}, e.name)
	}
}

func TestMessageFailsAfterTheFirstByte(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		return &appservertest.Failure{Message: "oops", Info: "internalServerError"}
	}})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming), "X-Request-Id", "late")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := sentEvents(t, resp)
	assert.Contains(t, got[len(got)-2].data, "so far")
	failsAfter(t, got, "overloaded_error")
	line := r.Log.Request(t, "late")
	assert.Equal(t, "upstream_error", line["outcome"])
	assert.InDelta(t, 200, line["status"], 0)
	assert.Equal(t, "/v1/messages", line["route"])
}

func TestWorkerDiesDuringAMessage(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Disconnect})
		resp := r.Messaging(t, apitest.Greet(form))
		assert.Equal(t, 529, resp.StatusCode)
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "overloaded_error", kind)
		assert.Contains(t, message, "the worker exited")
	})
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		<-gate
		turn.Peer().Disconnect()
		return nil
	}})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	nextEvent(t, body)
	close(gate)
	failsAfter(t, sentEvents(t, apitest.Unread(resp, body)), "overloaded_error")
}

func TestMessagesAreNotServed(t *testing.T) {
	t.Run("no worker", func(t *testing.T) {
		resp := apitest.NewRig(t, nil).Messaging(t, apitest.Greet(""))
		assert.Equal(t, 529, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Retry-After"), "a person has to act")
		assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	})
	t.Run("drained", func(t *testing.T) {
		r := apitest.NewRig(t, &appservertest.Server{})
		require.NoError(t, r.Pool.DrainWorker(r.Pool.Names()[0]))
		resp := r.Messaging(t, apitest.Greet(apitest.Streaming))
		assert.Equal(t, 529, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	})
	t.Run("a model that is not there", func(t *testing.T) {
		resp := apitest.NewRig(t, &appservertest.Server{}).Messaging(t, strings.Replace(apitest.Greet(""), "demo", "claude-9", 1))
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "not_found_error", kind)
		assert.Contains(t, message, "claude-9")
	})
}

func TestAbortedMessages(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first")})
	streamed := r.Messaging(t, apitest.Greet(apitest.Streaming))
	body := bufio.NewReader(streamed.Body)
	nextEvent(t, body)
	whole := make(chan *http.Response, 1)
	go func() { whole <- r.Messaging(t, apitest.Greet("")) }()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 2 })
	r.Pool.Drain()
	r.Abort()
	failsAfter(t, sentEvents(t, apitest.Unread(streamed, body)), "overloaded_error")
	assert.Equal(t, 529, apitest.Received(t, whole).StatusCode)
}

func TestIdleMessages(t *testing.T) {
	t.Parallel()
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Hang("")},
		func(o *apitest.Options) { o.IdleTimeout = 500 * time.Millisecond })
	apitest.BothForms(t, func(t *testing.T, form string) {
		resp := r.Messaging(t, apitest.Greet(form))
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		kind, _, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "timeout_error", kind)
	})
}
