package responses_test

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

// thinking is a turn that waits for the gate before its answer, or fails if failure is set.
func thinking(gate <-chan struct{}, failure error) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		if failure != nil {
			return failure
		}
		return apitest.Thinker(ctx, turn)
	}
}

// The first events of a stream do not wait for the model, nor for the first comment.
func TestStreamsBeginBeforeTheModel(t *testing.T) {
	t.Parallel()
	for _, header := range [][]string{nil, {"X-No-Keepalive", "1"}} {
		gate := make(chan struct{})
		r := apitest.NewRig(t, &appservertest.Server{Handler: thinking(gate, nil)},
			func(o *apitest.Options) { o.Keepalive = time.Hour })
		resp := r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`), header...)
		body := bufio.NewReader(resp.Body)
		var head strings.Builder
		for strings.Count(head.String(), "\n\n") < 2 {
			line, err := body.ReadString('\n')
			require.NoError(t, err)
			head.WriteString(line)
		}
		first := apitest.Events(t, head.String())
		assert.Equal(t, "response.created", first[0].Type)
		assert.Equal(t, "response.in_progress", first[1].Type)
		close(gate)
		rest := apitest.Text(t, apitest.Unread(resp, body))
		assert.NotContains(t, rest, "response.created")
		assert.Contains(t, rest, `"sequence_number":2`)
		assert.Contains(t, rest, first[0].Response.ID)
		assert.Contains(t, rest, "response.completed")
	}
}

// An error that comes before the first events keeps its status.
func TestErrorsBeforeTheStreamHaveAStatus(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail("limited", "usageLimitExceeded")})
	resp := r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "usage_limit_reached", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
}

// On a WebSocket the first events come with the start of the turn, and an error after them is the end of the
// response: no event follows it.
func TestResponsesOnASocketBeginBeforeTheModel(t *testing.T) {
	gate := make(chan struct{}, 2)
	var end error
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		return thinking(gate, end)(ctx, turn)
	}})
	k := r.Socket(t)
	for range 2 {
		end = &appservertest.Failure{Message: "limited", Info: "usageLimitExceeded"}
		k.Say(apitest.Create("", `"q"`))
		assert.Equal(t, "response.created", k.Hear().Type)
		assert.Equal(t, "response.in_progress", k.Hear().Type)
		gate <- struct{}{}
		e := k.Hear()
		require.Equal(t, "response.failed", e.Type)
		assert.Equal(t, "insufficient_quota", e.Response.Error.Code)
	}
	end = nil
	gate <- struct{}{}
	k.Say(apitest.Create("", `"q"`))
	assert.Equal(t, "response.completed", k.Response().Type)
}

// A lost turn whose first events were sent runs again as the same response.
func TestResponsesOnASocketRunAgain(t *testing.T) {
	received := make(chan struct{})
	handler, turns := apitest.LostInSilence(2, received)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	created := k.Hear()
	require.Equal(t, "response.created", created.Type)
	close(received)
	for n := 1; ; n++ {
		e := k.Hear()
		require.Equal(t, n, e.SequenceNumber)
		require.NotEqual(t, "response.created", e.Type)
		if e.Response != nil {
			assert.Equal(t, created.Response.ID, e.Response.ID)
		}
		if e.Type == "response.completed" {
			break
		}
	}
	assert.EqualValues(t, 3, turns.Load())
}

// A request that waits for a place has no response yet: its error has a status.
func TestWaitingRequestsHaveNoResponse(t *testing.T) {
	r, gate, finish := apitest.Single(t)
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	streamed := make(chan *http.Response, 1)
	go func() { streamed <- r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`)) }()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 2 })
	r.Pool.Drain()
	e := k.Hear()
	assert.Equal(t, "error", e.Type)
	assert.InDelta(t, http.StatusServiceUnavailable, e.Status, 0)
	assert.Equal(t, http.StatusServiceUnavailable, apitest.Received(t, streamed).StatusCode)
	close(gate)
	finish()
}
