package api

import (
	"context"
	"fmt"
	"io"
	"net"
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
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
)

// filled holds all of a memory.
type filled struct{ helds []limits.Held }

// fill acquires all memory that is left, also the part that extends other charges.
func fill(t *testing.T, m *limits.Memory) *filled {
	t.Helper()
	f := &filled{}
	var extended []limits.Held
	for range 64 {
		h := m.Hold("")
		require.True(t, h.TryAcquire(1))
		extended = append(extended, h)
	}
	for before := int64(-1); m.Bytes() > before; {
		before = m.Bytes()
		h := m.Hold("")
		for n := int64(1 << 40); n > 0; n /= 2 {
			for h.TryAcquire(n) {
			}
		}
		f.helds = append(f.helds, h)
	}
	for i, n := 0, int64(1<<40); n > 0 && i < len(extended); i++ {
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if extended[i].Add(brief, n) != nil {
			n /= 2
		}
		cancel()
	}
	f.helds = append(f.helds, extended...)
	return f
}

func (f *filled) release() {
	for i := range f.helds {
		f.helds[i].Release()
	}
}

// large is a request of n bytes, about.
func large(n int, extra string) string {
	return `{` + extra + `"model":"demo","messages":[{"role":"user","content":"` + strings.Repeat("x", n) + `"}]}`
}

// Bodies hold memory until their answer begins, and what finds no room waits.
func TestMemoryOfBodies(t *testing.T) {
	keys, secrets := withKeys(t, "alice", "bob")
	gate := make(chan struct{})
	worker := &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return appservertest.Reply("x")(ctx, turn)
	}}
	r := newRig(t, worker, func(o *options) {
		o.Keys, o.BodyLimit, o.RequestMemory, o.QueueTimeout = keys, 100<<10, 1200<<10, 30*time.Millisecond
	})
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	var waiting []chan *http.Response
	begin := func(key, body string) {
		answered := make(chan *http.Response, 1)
		waiting = append(waiting, answered)
		before := r.pool.Inflight()
		go func() { answered <- r.chatting(t, body, "Authorization", key) }()
		await(t, tick(t), func() bool { return r.pool.Inflight() > before })
	}
	begin(alice, large(90<<10, streaming))
	begin(alice, large(90<<10, ""))
	assert.InDelta(t, 2*2*90<<10, r.Memory.Bytes(), 2000, "each as it is, and as it is sent")
	resp := r.chatting(t, large(90<<10, ""), "Authorization", alice)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "concurrency_exceeded", failure(t, text(t, resp)).Error.Code)
	begin(alice, hello(""))
	begin(bob, large(90<<10, ""))
	begin(bob, large(90<<10, ""))
	assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", bob)),
		"codex_request_memory_bytes 73")

	close(gate)
	for _, answered := range waiting {
		resp := received(t, answered)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		text(t, resp)
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// Whose answer has begun holds nothing, however long that takes: a turn that the
// client has something of does not run again.
func TestMemoryOfLongAnswers(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "x")}, keeping(t))
	var open []*http.Response
	stream := func(path, body string) {
		resp := r.do(t, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		open = append(open, resp)
	}
	stream("/v1/chat/completions", large(90<<10, streaming))
	stream("/v1/responses", asked(`"stream":true,"store":false,`, `"`+strings.Repeat("x", 90<<10)+`"`))
	assert.Less(t, r.Memory.Bytes(), int64(1000))
	stream("/v1/responses", asked(`"stream":true,`, `"`+strings.Repeat("x", 90<<10)+`"`))
	assert.InDelta(t, limits.PerByte*90<<10, r.Memory.Bytes(), 5000, "it is yet to be stored")
	close(gate)
	for _, resp := range open {
		text(t, resp)
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A conversation that a few bytes refer to counts like one that was sent.
func TestMemoryOfStoredConversations(t *testing.T) {
	begun, gate := make(chan struct{}, 8), make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if strings.Contains(fmt.Sprintf("%s", turn.Request.Items), "wait") {
			begun <- struct{}{}
			<-gate
		}
		return appservertest.Reply("x")(ctx, turn)
	}}, keeping(t), func(o *options) {
		o.BodyLimit, o.RequestMemory, o.QueueTimeout = 100<<10, 1280<<10, 30*time.Millisecond
	})
	first := r.whole(t, asked("", `"`+strings.Repeat("x", 90<<10)+`"`)).ID
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
	continued := asked(`"previous_response_id":"`+first+`",`, `"wait"`)
	answered := make(chan *http.Response, 4)
	for range 4 {
		go func() { answered <- r.responding(t, continued) }()
		received(t, begun)
	}
	assert.InDelta(t, 4*limits.PerByte*90<<10, r.Memory.Bytes(), 60_000)
	for _, try := range [][3]string{{http.MethodPost, "/v1/responses", continued},
		{http.MethodGet, "/v1/responses/" + first + "/input_items", ""}} {
		resp := r.do(t, try[0], try[1], try[2])
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
	}
	close(gate)
	for range 4 {
		text(t, received(t, answered))
	}
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// Fetched images are charged like images in the body.
func TestMemoryOfImages(t *testing.T) {
	in := intake.New(intake.Settings{BodyLimit: 10 * int64(len(onePixel)), Images: &gallery{}})
	memory := limits.NewMemory(100*int64(len(onePixel)), 10*time.Millisecond)
	x := &proxy.Exchange{Grant: limits.NewLimiter(limits.Settings{}).Grant(auth.Key{}, memory)}
	images := []openai.PlacedImage{{At: "a", Image: &openai.Image{URL: "https://a/png"}},
		{At: "b", Image: &openai.Image{URL: onePixel}}}
	require.NoError(t, in.Inline(t.Context(), x, images))
	assert.Equal(t, limits.PerByte*int64(len(onePixel)), memory.Bytes())
	defer fill(t, memory).release()
	var refused *openai.Error
	require.ErrorAs(t, in.Inline(t.Context(), x,
		[]openai.PlacedImage{{At: "a", Image: &openai.Image{URL: "https://a/png"}}}), &refused)
	assert.Equal(t, "overloaded", refused.Code)
}

// Messages on a WebSocket hold memory as requests do; what its connection remembers
// is counted by itself, and forgotten where there is no room for it.
func TestMemoryOfWebSockets(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) {
		o.BodyLimit, o.RequestMemory, o.QueueTimeout = 100<<10, 1600<<10, 30*time.Millisecond
	})
	k := r.socket(t)
	k.say(create(`"store":false,`, `"`+strings.Repeat("x", 20<<10)+`"`)) // which the answer repeats
	first := k.response().Response.ID
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
	await(t, tick(t), func() bool { return r.socketMemory.Bytes() > 40<<10 })

	full := fill(t, r.Memory)
	for _, input := range []string{"q", strings.Repeat("x", 16<<10)} {
		k.say(create("", `"`+input+`"`))
		e := k.hear()
		assert.Equal(t, "error", e.Type)
		assert.Equal(t, "overloaded", e.Error.Code)
	}
	full.release()

	others := r.socketMemory.Hold("")
	require.True(t, others.TryAcquire(330<<10))
	k.say(create(`"store":false,"previous_response_id":"`+first+`",`, `"`+strings.Repeat("y", 20<<10)+`"`))
	second := k.response()
	require.Equal(t, "response.completed", second.Type, "the connection goes on, and remembers")
	await(t, tick(t), func() bool { return r.socketMemory.Bytes() == 330<<10 }) // for more there is no room
	k.say(create(`"store":false,"previous_response_id":"`+second.Response.ID+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", k.hear().Error.Code)
	k.say(create(`"store":false,`, `"q"`))
	k.response()
	await(t, tick(t), func() bool { return r.socketMemory.Bytes() > 330<<10 })
	k.say(create(`"store":false,`, `"q"`))
	_ = k.CloseNow()
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 && r.socketMemory.Bytes() == 330<<10 })
}

// Small messages are read when there is no memory: a cancel gets through, and what
// is a request waits for room by itself.
func TestCancelWithoutMemory(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "half")}, func(o *options) { o.QueueTimeout = time.Hour })
	k := r.socket(t)
	k.say(create("", `"q"`))
	id := k.hear().Response.ID
	for k.hear().Type != "response.output_text.delta" {
	}
	full := fill(t, r.Memory)
	k.say(create("", `"q"`))
	k.say(`{"type":"response.cancel","response_id":"` + id + `"}`)
	for k.hear().Type != "response.incomplete" {
	}
	k.say(create("", `"`+strings.Repeat("x", 16<<10)+`"`))
	full.release()
	close(gate)
	for range 2 {
		for k.hear().Type != "response.completed" {
		}
	}
	require.NoError(t, k.CloseNow())
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// A large message that waits for memory holds up no WebSocket that is to be left.
func TestLeavingWithoutMemory(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.QueueTimeout = time.Hour })
	k := r.socket(t)
	full := fill(t, r.Memory)
	defer full.release()
	k.say(create("", `"`+strings.Repeat("x", 16<<10)+`"`))
	await(t, tick(t), func() bool { return !full.helds[0].TryAcquire(0) }) // as a message waits
	r.Connections.StopAccepting()
	assert.Equal(t, websocket.StatusGoingAway, k.closed())
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	assert.NoError(t, r.Connections.AwaitQuiet(ctx, nil))
}

// upgrading asks for a WebSocket.
const upgrading = "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// upgraded makes a WebSocket of a connection; what is said on it comes when it ends.
func upgraded(t *testing.T, client net.Conn) <-chan string {
	t.Helper()
	_, err := io.WriteString(client, upgrading)
	require.NoError(t, err)
	answer := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(client)
		answer <- string(all)
	}()
	return answer
}

// A message that does not come whole holds memory for a minute, not for ever.
func TestMessagesThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := piped(t)
		answer := upgraded(t, client)
		_, err := client.Write([]byte{0x81, 0x80 | 100, 1, 2, 3, 4,
			'x'}) // the head of a masked text of 100 bytes, and one of them
		require.NoError(t, err)
		began := time.Now()
		assert.Contains(t, <-answer, "101 Switching Protocols")
		assert.InDelta(t, time.Minute, time.Since(began), float64(time.Second))
		leave()
	})
}
