package turn_test

import (
	"bufio"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A rotated turn is ahead of the requests that waited before it came.
func TestRotatedTurnsAreAheadOfTheQueue(t *testing.T) {
	f := apitest.NewFleet("a", "b")
	gateA, gateB := make(chan struct{}), make(chan struct{})
	f.Let("a", func(_ context.Context, turn *appservertest.Turn) error {
		<-gateA
		return &appservertest.Failure{Message: apitest.UsedUp.Message, Info: apitest.UsedUp.Info}
	})
	f.Let("b", apitest.Gated(gateB, "", "I am b"))
	r := f.Rig(t, func(o *apitest.Options) { o.Max = 1 })
	first := r.Begin(t, apitest.Conversation("", "refused", 1))
	apitest.Await(t, apitest.Tick(t), func() bool { return len(f.Got("a")) == 1 })
	busy := r.Begin(t, apitest.Conversation("", "busy", 1))
	apitest.Await(t, apitest.Tick(t), func() bool { return len(f.Got("b")) == 1 })
	waiting := r.Later(t, apitest.Conversation("", "waiting", 1))
	close(gateA)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 2 })
	close(gateB)
	for _, resp := range []<-chan *http.Response{first, busy, waiting} {
		assert.Equal(t, http.StatusOK, apitest.Received(t, resp).StatusCode)
	}
	var order []string
	for _, turn := range f.Got("b") {
		order = append(order, turn.Prompt())
	}
	assert.Equal(t, []string{"qbusy1", "qrefused1", "qwaiting1"}, order)
}

// A drain refuses no turn that rotates.
func TestDrainDuringARotation(t *testing.T) {
	f, gate := apitest.NewFleet("a", "b"), make(chan struct{})
	r, busy, refused, cancel := f.Held(t, gate)
	defer cancel()
	r.Pool.Drain()
	close(gate)
	apitest.Received(t, busy)
	resp := apitest.Received(t, refused)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// A client that goes while its turn waits for another account leaves the queue.
func TestClientGoneDuringARotation(t *testing.T) {
	f, gate := apitest.NewFleet("a", "b"), make(chan struct{})
	r, busy, refused, cancel := f.Held(t, gate)
	cancel()
	apitest.Received(t, refused)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 0 })
	close(gate)
	apitest.Received(t, busy)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
	assert.Len(t, f.Got("b"), 1)
}

// Comments keep the stream of a turn open that waits for another account.
func TestStreamsStayOpenDuringARotation(t *testing.T) {
	f, gate := apitest.NewFleet("a", "b"), make(chan struct{})
	f.Let("b", apitest.Gated(gate, "", "I am b"))
	r := f.Rig(t, func(o *apitest.Options) { o.Max, o.Keepalive = 1, 10*time.Millisecond })
	require.NoError(t, r.Pool.AccountStore().Switch("b"))
	busy := r.Begin(t, apitest.Conversation("", "busy", 1))
	apitest.Await(t, apitest.Tick(t), func() bool { return len(f.Got("b")) == 1 })
	require.NoError(t, r.Pool.AccountStore().Switch("a"))
	f.Refuses("a", apitest.UsedUp)
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(resp.Body)
	assert.Equal(t, ": keepalive", apitest.Frame(t, body))
	apitest.Await(t, apitest.Tick(t), func() bool { return len(f.Got("a")) == 1 })
	close(gate)
	rest := apitest.Text(t, apitest.Unread(resp, body))
	assert.Contains(t, rest, "I am b")
	assert.Contains(t, rest, "[DONE]")
	apitest.Received(t, busy)
}
