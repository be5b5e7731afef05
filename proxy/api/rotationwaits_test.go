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

// A rotated turn is ahead of the requests that waited before it came.
func TestRotatedTurnsAreAheadOfTheQueue(t *testing.T) {
	f := newFleet("a", "b")
	gateA, gateB := make(chan struct{}), make(chan struct{})
	f.let("a", func(_ context.Context, turn *appservertest.Turn) error {
		<-gateA
		return &appservertest.Failure{Message: usedUp.message, Info: usedUp.info}
	})
	f.let("b", gated(gateB, "", "I am b"))
	r := f.rig(t, func(o *options) { o.max = 1 })
	first := r.begin(t, conversation("", "refused", 1))
	await(t, tick(t), func() bool { return len(f.got("a")) == 1 })
	busy := r.begin(t, conversation("", "busy", 1))
	await(t, tick(t), func() bool { return len(f.got("b")) == 1 })
	waiting := r.later(t, conversation("", "waiting", 1))
	close(gateA)
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 2 })
	close(gateB)
	for _, resp := range []<-chan *http.Response{first, busy, waiting} {
		assert.Equal(t, http.StatusOK, received(t, resp).StatusCode)
	}
	var order []string
	for _, turn := range f.got("b") {
		order = append(order, turn.Prompt())
	}
	assert.Equal(t, []string{"qbusy1", "qrefused1", "qwaiting1"}, order)
}

// begin posts a request in a goroutine of its own.
func (r *rig) begin(t *testing.T, body string) <-chan *http.Response {
	t.Helper()
	resp := make(chan *http.Response, 1)
	go func() { resp <- r.chatting(t, body) }()
	return resp
}

// held is a rig where a turn was refused on a, and waits for b, which is busy until gate.
func (f *fleet) held(t *testing.T, gate <-chan struct{}) (r *rig, busy, refused <-chan *http.Response, cancel func()) {
	t.Helper()
	f.let("b", gated(gate, "", "I am b"))
	f.refuses("a", usedUp)
	r = f.rig(t, func(o *options) { o.max = 1 })
	require.NoError(t, r.pool.Book().Switch("b"))
	busy = r.begin(t, conversation("", "busy", 1))
	await(t, tick(t), func() bool { return len(f.got("b")) == 1 })
	require.NoError(t, r.pool.Book().Switch("a"))
	ctx, cancel := context.WithCancel(t.Context())
	resp := make(chan *http.Response, 1)
	go func() {
		defer close(resp)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions",
			strings.NewReader(conversation("", "refused", 1)))
		assert.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if answer, err := r.client.Do(req); err == nil {
			resp <- answer
		}
	}()
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 1 && len(f.got("a")) == 1 })
	return r, busy, resp, cancel
}

// A drain refuses no turn that rotates.
func TestDrainDuringARotation(t *testing.T) {
	f, gate := newFleet("a", "b"), make(chan struct{})
	r, busy, refused, cancel := f.held(t, gate)
	defer cancel()
	r.pool.Drain()
	close(gate)
	received(t, busy)
	resp := received(t, refused)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// A client that goes while its turn waits for another account leaves the queue.
func TestClientGoneDuringARotation(t *testing.T) {
	f, gate := newFleet("a", "b"), make(chan struct{})
	r, busy, refused, cancel := f.held(t, gate)
	cancel()
	received(t, refused)
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 0 })
	close(gate)
	received(t, busy)
	await(t, tick(t), func() bool { return r.pool.Inflight() == 0 })
	assert.Len(t, f.got("b"), 1)
}

// Comments keep the stream of a turn open that waits for another account.
func TestStreamsStayOpenDuringARotation(t *testing.T) {
	f, gate := newFleet("a", "b"), make(chan struct{})
	f.let("b", gated(gate, "", "I am b"))
	r := f.rig(t, func(o *options) { o.max, o.Keepalive = 1, 10*time.Millisecond })
	require.NoError(t, r.pool.Book().Switch("b"))
	busy := r.begin(t, conversation("", "busy", 1))
	await(t, tick(t), func() bool { return len(f.got("b")) == 1 })
	require.NoError(t, r.pool.Book().Switch("a"))
	f.refuses("a", usedUp)
	resp := r.chatting(t, hello(streaming))
	body := bufio.NewReader(resp.Body)
	assert.Equal(t, ": keepalive", frame(t, body))
	await(t, tick(t), func() bool { return len(f.got("a")) == 1 })
	close(gate)
	rest := text(t, unread(resp, body))
	assert.Contains(t, rest, "I am b")
	assert.Contains(t, rest, "[DONE]")
	received(t, busy)
}
