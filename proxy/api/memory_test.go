package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/media"
)

// large is a request of n bytes, about.
func large(n int, extra string) string {
	return `{` + extra + `"model":"demo","messages":[{"role":"user","content":"` + strings.Repeat("x", n) + `"}]}`
}

// Bodies hold memory until their answer begins, and what finds no room waits.
func TestMemoryOfBodies(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice", "bob")
	gate := make(chan struct{})
	worker := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return appservertest.Reply("x")(ctx, turn)
	}}
	r := apitest.NewRig(t, worker, func(o *apitest.Options) {
		o.Keys, o.BodyLimit, o.RequestMemory, o.QueueTimeout = keys, 100<<10, 1200<<10, 30*time.Millisecond
	})
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	var waiting []chan *http.Response
	begin := func(key, body string) {
		answered := make(chan *http.Response, 1)
		waiting = append(waiting, answered)
		before := r.Pool.Inflight()
		go func() { answered <- r.Chatting(t, body, "Authorization", key) }()
		apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() > before })
	}
	begin(alice, large(90<<10, apitest.Streaming))
	begin(alice, large(90<<10, ""))
	assert.InDelta(t, 2*2*90<<10, r.Memory.Bytes(), 2000, "each as it is, and as it is sent")
	resp := r.Chatting(t, large(90<<10, ""), "Authorization", alice)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "concurrency_exceeded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	begin(alice, apitest.Hello(""))
	begin(bob, large(90<<10, ""))
	begin(bob, large(90<<10, ""))
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "", "Authorization", bob)),
		"codex_request_memory_bytes 73")

	close(gate)
	for _, answered := range waiting {
		resp := apitest.Received(t, answered)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		apitest.Text(t, resp)
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// Whose answer has begun holds nothing, however long that takes: a turn that the
// client has something of does not run again.
func TestMemoryOfLongAnswers(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "x")}, apitest.Keeping(t))
	var open []*http.Response
	stream := func(path, body string) {
		resp := r.Do(t, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		open = append(open, resp)
	}
	stream("/v1/chat/completions", large(90<<10, apitest.Streaming))
	stream("/v1/responses", apitest.Asked(`"stream":true,"store":false,`, `"`+strings.Repeat("x", 90<<10)+`"`))
	assert.Less(t, r.Memory.Bytes(), int64(1000))
	stream("/v1/responses", apitest.Asked(`"stream":true,`, `"`+strings.Repeat("x", 90<<10)+`"`))
	assert.InDelta(t, limits.PerByte*90<<10, r.Memory.Bytes(), 5000, "it is yet to be stored")
	close(gate)
	for _, resp := range open {
		apitest.Text(t, resp)
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A conversation that a few bytes refer to counts like one that was sent.
func TestMemoryOfStoredConversations(t *testing.T) {
	begun, gate := make(chan struct{}, 8), make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if strings.Contains(fmt.Sprintf("%s", turn.Request.Items), "wait") {
			begun <- struct{}{}
			<-gate
		}
		return appservertest.Reply("x")(ctx, turn)
	}}, apitest.Keeping(t), func(o *apitest.Options) {
		o.BodyLimit, o.RequestMemory, o.QueueTimeout = 100<<10, 1280<<10, 30*time.Millisecond
	})
	first := r.Whole(t, apitest.Asked("", `"`+strings.Repeat("x", 90<<10)+`"`)).ID
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
	continued := apitest.Asked(`"previous_response_id":"`+first+`",`, `"wait"`)
	answered := make(chan *http.Response, 4)
	for range 4 {
		go func() { answered <- r.Responding(t, continued) }()
		apitest.Received(t, begun)
	}
	assert.InDelta(t, 4*limits.PerByte*90<<10, r.Memory.Bytes(), 60_000)
	for _, try := range [][3]string{{http.MethodPost, "/v1/responses", continued},
		{http.MethodGet, "/v1/responses/" + first + "/input_items", ""}} {
		resp := r.Do(t, try[0], try[1], try[2])
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	close(gate)
	for range 4 {
		apitest.Text(t, apitest.Received(t, answered))
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// Fetched images are charged like images in the body.
func TestMemoryOfImages(t *testing.T) {
	in := admission.New(admission.Settings{BodyLimit: 10 * int64(len(apitest.OnePixel)), Images: &apitest.Gallery{}})
	memory := limits.NewMemory(100*int64(len(apitest.OnePixel)), 10*time.Millisecond)
	x := &proxy.Exchange{Grant: limits.NewLimiter(limits.Settings{}).Grant(auth.Key{}, memory)}
	images := []media.PlacedImage{{At: "a", Image: &media.Image{URL: "https://a/png"}},
		{At: "b", Image: &media.Image{URL: apitest.OnePixel}}}
	require.NoError(t, in.Inline(t.Context(), x, images))
	assert.Equal(t, limits.PerByte*int64(len(apitest.OnePixel)), memory.Bytes())
	defer apitest.Fill(t, memory).Release()
	var refused *openai.Error
	require.ErrorAs(t, in.Inline(t.Context(), x,
		[]media.PlacedImage{{At: "a", Image: &media.Image{URL: "https://a/png"}}}), &refused)
	assert.Equal(t, "overloaded", refused.Code)
}

// Messages on a WebSocket hold memory as requests do; what its connection remembers
// is counted by itself, and forgotten where there is no room for it.
func TestMemoryOfWebSockets(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) {
		o.BodyLimit, o.RequestMemory, o.QueueTimeout = 100<<10, 1600<<10, 30*time.Millisecond
	})
	k := r.Socket(t)
	k.Say(apitest.Create(`"store":false,`, `"`+strings.Repeat("x", 20<<10)+`"`)) // which the answer repeats
	first := k.Response().Response.ID
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
	apitest.Await(t, apitest.Tick(t), func() bool { return r.SocketMemory().Bytes() > 40<<10 })

	full := apitest.Fill(t, r.Memory)
	for _, input := range []string{"q", strings.Repeat("x", 16<<10)} {
		k.Say(apitest.Create("", `"`+input+`"`))
		e := k.Hear()
		assert.Equal(t, "error", e.Type)
		assert.Equal(t, "overloaded", e.Error.Code)
	}
	full.Release()

	others := r.SocketMemory().Hold("")
	require.True(t, others.TryAcquire(330<<10))
	k.Say(apitest.Create(`"store":false,"previous_response_id":"`+first+`",`, `"`+strings.Repeat("y", 20<<10)+`"`))
	second := k.Response()
	require.Equal(t, "response.completed", second.Type, "the connection goes on, and remembers")
	apitest.Await(t, apitest.Tick(t), func() bool { return r.SocketMemory().Bytes() == 330<<10 }) // for more there is no room
	k.Say(apitest.Create(`"store":false,"previous_response_id":"`+second.Response.ID+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", k.Hear().Error.Code)
	k.Say(apitest.Create(`"store":false,`, `"q"`))
	k.Response()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.SocketMemory().Bytes() > 330<<10 })
	k.Say(apitest.Create(`"store":false,`, `"q"`))
	_ = k.CloseNow()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 && r.SocketMemory().Bytes() == 330<<10 })
}

// Small messages are read when there is no memory: a cancel gets through, and what
// is a request waits for room by itself.
func TestCancelWithoutMemory(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half")}, func(o *apitest.Options) { o.QueueTimeout = time.Hour })
	k := r.Socket(t)
	k.Say(apitest.Create("", `"q"`))
	id := k.Hear().Response.ID
	for k.Hear().Type != "response.output_text.delta" {
	}
	full := apitest.Fill(t, r.Memory)
	k.Say(apitest.Create("", `"q"`))
	k.Say(`{"type":"response.cancel","response_id":"` + id + `"}`)
	for k.Hear().Type != "response.incomplete" {
	}
	k.Say(apitest.Create("", `"`+strings.Repeat("x", 16<<10)+`"`))
	full.Release()
	close(gate)
	for range 2 {
		for k.Hear().Type != "response.completed" {
		}
	}
	require.NoError(t, k.CloseNow())
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A large message that waits for memory holds up no WebSocket that is to be left.
func TestLeavingWithoutMemory(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.QueueTimeout = time.Hour })
	k := r.Socket(t)
	full := apitest.Fill(t, r.Memory)
	defer full.Release()
	k.Say(apitest.Create("", `"`+strings.Repeat("x", 16<<10)+`"`))
	apitest.Await(t, apitest.Tick(t), func() bool { return !full.Helds[0].TryAcquire(0) }) // as a message waits
	r.Connections.StopAccepting()
	assert.Equal(t, websocket.StatusGoingAway, k.Closed())
	ctx, cancel := context.WithTimeout(t.Context(), apitest.Bound)
	defer cancel()
	assert.NoError(t, r.Connections.AwaitQuiet(ctx, nil))
}

// A message that does not come whole holds memory for a minute, not for ever.
func TestMessagesThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := apitest.Piped(t)
		answer := apitest.Upgraded(t, client)
		_, err := client.Write([]byte{0x81, 0x80 | 100, 1, 2, 3, 4,
			'x'}) // the head of a masked text of 100 bytes, and one of them
		require.NoError(t, err)
		began := time.Now()
		assert.Contains(t, <-answer, "101 Switching Protocols")
		assert.InDelta(t, time.Minute, time.Since(began), float64(time.Second))
		leave()
	})
}
