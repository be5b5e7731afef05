package api

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
)

// anthropicTypes are the types of errors by their status.
var anthropicTypes = map[int]string{400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error",
	504: "timeout_error", 529: "overloaded_error"}

// Every way in which codex lets a turn fail, in Anthropic's form.
func TestFailedMessages(t *testing.T) {
	var i int
	r := newRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: turnFailures[i].message, Info: turnFailures[i].info}
	}})
	for n, tc := range turnFailures {
		i = n
		status := tc.status
		if status == http.StatusServiceUnavailable {
			status = 529 // Anthropic's libraries send the request again
		}
		bothForms(t, func(t *testing.T, form string) {
			resp := r.messaging(t, greet(form))
			assert.Equal(t, status, resp.StatusCode, tc.name)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			assert.Equal(t, tc.retryAfter, resp.Header.Get("Retry-After"), tc.name)
			kind, _, id := anthropicFailure(t, text(t, resp))
			assert.Equal(t, anthropicTypes[status], kind, tc.name)
			assert.Equal(t, resp.Header.Get("Request-Id"), id)
			assert.Equal(t, tc.code, r.log.request(t, id)["outcome"])
		})
	}
}

// Claude Code compacts a conversation by these words.
func TestMessagesThatAreTooLong(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: appservertest.Fail("too long", "contextWindowExceeded")})
	_, message, _ := anthropicFailure(t, text(t, r.messaging(t, greet(""))))
	assert.Contains(t, message, "prompt is too long")
}

// failsAfter asserts that a stream has events, then one event error, and no end.
func failsAfter(t *testing.T, got []sentEvent, kind string) {
	t.Helper()
	require.NotEmpty(t, got)
	last := got[len(got)-1]
	assert.Equal(t, "error", last.name)
	failed, _, id := anthropicFailure(t, last.data)
	assert.Equal(t, kind, failed)
	assert.NotEmpty(t, id)
	for _, e := range got[:len(got)-1] {
		assert.NotContains(t, []string{"error", "message_delta", "message_stop"}, e.name)
	}
}

func TestMessageFailsAfterTheFirstByte(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		return &appservertest.Failure{Message: "oops", Info: "internalServerError"}
	}})
	resp := r.messaging(t, greet(streaming), "X-Request-Id", "late")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := sentEvents(t, resp)
	assert.Contains(t, got[len(got)-2].data, "so far")
	failsAfter(t, got, "overloaded_error")
	line := r.log.request(t, "late")
	assert.Equal(t, "upstream_error", line["outcome"])
	assert.InDelta(t, 200, line["status"], 0)
	assert.Equal(t, "/v1/messages", line["route"])
}

func TestWorkerDiesDuringAMessage(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		r := newRig(t, &appservertest.Server{Handler: disconnect})
		resp := r.messaging(t, greet(form))
		assert.Equal(t, 529, resp.StatusCode)
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		kind, message, _ := anthropicFailure(t, text(t, resp))
		assert.Equal(t, "overloaded_error", kind)
		assert.Contains(t, message, "the worker exited")
	})
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		<-gate
		turn.Peer().Disconnect()
		return nil
	}})
	resp := r.messaging(t, greet(streaming))
	body := bufio.NewReader(resp.Body)
	nextEvent(t, body)
	close(gate)
	failsAfter(t, sentEvents(t, unread(resp, body)), "overloaded_error")
}

func TestMessagesAreNotServed(t *testing.T) {
	t.Run("no worker", func(t *testing.T) {
		resp := newRig(t, nil).messaging(t, greet(""))
		assert.Equal(t, 529, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Retry-After"), "a person has to act")
		assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	})
	t.Run("drained", func(t *testing.T) {
		r := newRig(t, &appservertest.Server{})
		require.NoError(t, r.pool.DrainWorker(r.pool.Names()[0]))
		resp := r.messaging(t, greet(streaming))
		assert.Equal(t, 529, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	})
	t.Run("a model that is not there", func(t *testing.T) {
		resp := newRig(t, &appservertest.Server{}).messaging(t, strings.Replace(greet(""), "demo", "claude-9", 1))
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		kind, message, _ := anthropicFailure(t, text(t, resp))
		assert.Equal(t, "not_found_error", kind)
		assert.Contains(t, message, "claude-9")
	})
}

func TestAbortedMessages(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first")})
	streamed := r.messaging(t, greet(streaming))
	body := bufio.NewReader(streamed.Body)
	nextEvent(t, body)
	whole := make(chan *http.Response, 1)
	go func() { whole <- r.messaging(t, greet("")) }()
	await(t, tick(t), func() bool { return r.pool.Inflight() == 2 })
	r.pool.Drain()
	r.Abort()
	failsAfter(t, sentEvents(t, unread(streamed, body)), "overloaded_error")
	assert.Equal(t, 529, received(t, whole).StatusCode)
}

func TestIdleMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{Handler: appservertest.Hang("")},
		func(o *options) { o.IdleTimeout = 500 * time.Millisecond })
	bothForms(t, func(t *testing.T, form string) {
		resp := r.messaging(t, greet(form))
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		kind, _, _ := anthropicFailure(t, text(t, resp))
		assert.Equal(t, "timeout_error", kind)
	})
}
