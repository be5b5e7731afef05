package proxy

import (
	"context"
	"errors"
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
	"golang.org/x/sync/semaphore"

	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/openai"
)

// refusedBy is the code of an error for the client.
func refusedBy(t *testing.T, err error) string {
	t.Helper()
	var told *openai.Error
	require.ErrorAs(t, err, &told)
	assert.Equal(t, time.Second, told.RetryAfter)
	return told.Code
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(160, time.Minute) // 10 of which are for small requests, of no bytes
		ann, again, bob, eve := m.hold("ann"), m.hold("ann"), m.hold("bob"), m.hold("eve")
		ctx := t.Context()
		require.NoError(t, ann.take(ctx, 40))
		began := time.Now()
		assert.Equal(t, "concurrency_exceeded", refusedBy(t, again.take(ctx, 50)), "half is for one key")
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, bob.take(ctx, 200), "no part is too large for an idle service")
		assert.Equal(t, int64(80), bob.bytes)
		assert.Equal(t, "overloaded", refusedBy(t, eve.take(ctx, 40)))
		require.NoError(t, eve.take(ctx, 30), "what was refused is not counted")
		assert.Equal(t, int64(150), m.bytes.Load())

		waited := make(chan error, 2)
		go func() { waited <- eve.take(ctx, 30) }()
		synctest.Wait()
		assert.False(t, again.try(1))
		bob.keep(60)
		bob.keep(70)
		synctest.Wait()
		assert.Empty(t, waited, "20 bytes are not 30")
		assert.False(t, again.try(1), "nobody overtakes who waits")
		ann.keep(30)
		require.NoError(t, <-waited)
		assert.True(t, again.try(0))

		left, leave := context.WithCancelCause(ctx)
		leave(errors.New("gone"))
		assert.ErrorIs(t, again.take(left, 80), errClientGone)
		for _, h := range []*held{&ann, &again, &bob, &eve} {
			h.keep(0)
		}
		assert.Zero(t, m.bytes.Load())
		for _, key := range []string{"ann", "bob", "eve"} {
			h := m.hold(key)
			require.True(t, h.try(80), key)
			h.keep(0)
		}
	})
}

// Small requests wait neither behind a large one nor for it, and have the room of all
// others when their own is full.
func TestMemoryOfSmallRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(64<<10, time.Minute)
		full, large, late := m.hold(""), m.hold(""), m.hold("")
		require.NoError(t, full.take(t.Context(), 32<<10))
		require.NoError(t, large.take(t.Context(), 28<<10))
		waited := make(chan error, 1)
		go func() { waited <- late.take(t.Context(), 1000) }()
		synctest.Wait()
		var small [17]held
		began := time.Now()
		for i := range 16 {
			small[i] = m.hold("")
			require.NoError(t, small[i].take(t.Context(), 100))
			require.NoError(t, small[i].take(t.Context(), 156))
		}
		assert.Zero(t, time.Since(began))
		small[16] = m.hold("")
		assert.False(t, small[16].try(1), "that is all of theirs")
		small[0].keep(200)
		assert.False(t, small[1].try(1), "it would be small no more")
		full.keep(0)
		require.NoError(t, <-waited)
		assert.True(t, small[16].try(57), "one more than there is for small ones")
		assert.True(t, small[1].try(1000))
		large.keep(100)
		for _, h := range append(small[:], large, late) {
			h.keep(0)
		}
		assert.Zero(t, m.bytes.Load())
		require.True(t, m.all.TryAcquire(60<<10))
		require.True(t, m.small.TryAcquire(4<<10))
	})
}

// What holds something already waits for none of those that hold the rest, nor for one
// that waits.
func TestMemoryIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(1600, time.Minute)
		ann, bob, eve := m.hold("ann"), m.hold("bob"), m.hold("eve")
		require.NoError(t, ann.take(t.Context(), 800))
		require.NoError(t, bob.take(t.Context(), 700))
		require.NoError(t, bob.extend(t.Context(), 60))
		mary := m.hold("mary")
		assert.Equal(t, "overloaded", refusedBy(t, mary.extend(t.Context(), 150)), "an eighth is for all of them")
		waited := make(chan error, 1)
		go func() { waited <- eve.take(t.Context(), 700) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, bob.extend(t.Context(), 20))
		require.NoError(t, ann.extend(t.Context(), 80), "it has its share, and counts as that")
		assert.Zero(t, time.Since(began))
		assert.Equal(t, int64(1580), m.bytes.Load())
		bob.keep(710)
		bob.keep(600)
		ann.keep(0)
		require.NoError(t, <-waited)
		bob.keep(0)
		eve.keep(0)
		assert.Zero(t, m.bytes.Load())
		require.True(t, m.all.TryAcquire(1500))
		require.True(t, m.more.TryAcquire(200))
	})
}

// fill takes all memory that is left.
func fill(m *memory) (free func()) {
	drain := func(all *semaphore.Weighted) (free func()) {
		taken := int64(0)
		for n := m.limit; n > 0; n /= 2 {
			for all.TryAcquire(n) {
				taken += n
			}
		}
		return func() { all.Release(taken) }
	}
	all, small, more := drain(m.all), drain(m.small), drain(m.more)
	return func() {
		all()
		small()
		more()
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
		o.BodyLimit, o.RequestMemory, o.QueueTimeout = 100<<10, 1200<<10, 30*time.Millisecond
	})
	r.Keys = keys
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	var waiting []chan *http.Response
	begin := func(key, body string) {
		answered := make(chan *http.Response, 1)
		waiting = append(waiting, answered)
		before := r.Pool.Inflight()
		go func() { answered <- r.chatting(t, body, "Authorization", key) }()
		await(t, tick(t), func() bool { return r.Pool.Inflight() > before })
	}
	begin(alice, large(90<<10, streaming))
	begin(alice, large(90<<10, ""))
	assert.InDelta(t, 2*2*90<<10, r.memory.bytes.Load(), 2000, "each as it is, and as it is sent")
	resp := r.chatting(t, large(90<<10, ""), "Authorization", alice)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "concurrency_exceeded", failure(t, text(t, resp)).Error.Code)
	begin(alice, hello(""))
	begin(bob, large(90<<10, ""))
	begin(bob, large(90<<10, ""))
	assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", bob)), "codex_request_memory_bytes 73")

	close(gate)
	for _, answered := range waiting {
		resp := received(t, answered)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		text(t, resp)
	}
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
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
	assert.Less(t, r.memory.bytes.Load(), int64(1000))
	stream("/v1/responses", asked(`"stream":true,`, `"`+strings.Repeat("x", 90<<10)+`"`))
	assert.InDelta(t, perByte*90<<10, r.memory.bytes.Load(), 5000, "it is yet to be stored")
	close(gate)
	for _, resp := range open {
		text(t, resp)
	}
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
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
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
	continued := asked(`"previous_response_id":"`+first+`",`, `"wait"`)
	answered := make(chan *http.Response, 4)
	for range 4 {
		go func() { answered <- r.responding(t, continued) }()
		received(t, begun)
	}
	assert.InDelta(t, 4*perByte*90<<10, r.memory.bytes.Load(), 60_000)
	for _, try := range [][3]string{{http.MethodPost, "/v1/responses", continued}, {http.MethodGet, "/v1/responses/" + first + "/input_items", ""}} {
		resp := r.do(t, try[0], try[1], try[2])
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
	}
	close(gate)
	for range 4 {
		text(t, received(t, answered))
	}
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
}

// Images that are fetched count as if they had been sent.
func TestMemoryOfImages(t *testing.T) {
	x := &exchange{held: newMemory(100, 0).hold("")}
	s := &Server{Settings: Settings{BodyLimit: 10 * int64(len(onePixel)), Images: &gallery{}}}
	images := []openai.PlacedImage{{At: "a", Image: &openai.Image{URL: "https://a/png"}}, {At: "b", Image: &openai.Image{URL: onePixel}}}
	require.NoError(t, s.inline(t.Context(), x, images))
	assert.Equal(t, int64(min(50, len(onePixel))), x.held.bytes)
	full := newMemory(100, 10*time.Millisecond)
	fill(full)
	x.held = full.hold("")
	assert.Equal(t, "overloaded", refusedBy(t, s.inline(t.Context(), x, []openai.PlacedImage{{At: "a", Image: &openai.Image{URL: "https://a/png"}}})))
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
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
	await(t, tick(t), func() bool { return r.remembered.bytes.Load() > 40<<10 })

	free := fill(r.memory)
	for _, input := range []string{"q", strings.Repeat("x", smallMessage)} {
		k.say(create("", `"`+input+`"`))
		e := k.hear()
		assert.Equal(t, "error", e.Type)
		assert.Equal(t, "overloaded", e.Error.Code)
	}
	free()

	others := r.remembered.hold("")
	require.True(t, others.try(330<<10))
	k.say(create(`"store":false,"previous_response_id":"`+first+`",`, `"`+strings.Repeat("y", 20<<10)+`"`))
	second := k.response()
	require.Equal(t, "response.completed", second.Type, "the connection goes on, and remembers")
	await(t, tick(t), func() bool { return r.remembered.bytes.Load() == 330<<10 }) // for more there is no room
	k.say(create(`"store":false,"previous_response_id":"`+second.Response.ID+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", k.hear().Error.Code)
	k.say(create(`"store":false,`, `"q"`))
	k.response()
	await(t, tick(t), func() bool { return r.remembered.bytes.Load() > 330<<10 })
	k.say(create(`"store":false,`, `"q"`))
	_ = k.CloseNow()
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 && r.remembered.bytes.Load() == 330<<10 })
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
	free := fill(r.memory)
	k.say(create("", `"q"`))
	k.say(`{"type":"response.cancel","response_id":"` + id + `"}`)
	for k.hear().Type != "response.incomplete" {
	}
	k.say(create("", `"`+strings.Repeat("x", smallMessage)+`"`))
	free()
	close(gate)
	for range 2 {
		for k.hear().Type != "response.completed" {
		}
	}
	require.NoError(t, k.CloseNow())
	await(t, tick(t), func() bool { return r.memory.bytes.Load() == 0 })
}

// A large message that waits for memory holds up no WebSocket that is to be left.
func TestLeavingWithoutMemory(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, func(o *options) { o.QueueTimeout = time.Hour })
	k := r.socket(t)
	defer fill(r.memory)()
	k.say(create("", `"`+strings.Repeat("x", smallMessage)+`"`))
	await(t, tick(t), func() bool { return !r.memory.all.TryAcquire(0) }) // as somebody waits
	r.StopAccepting()
	assert.Equal(t, websocket.StatusGoingAway, k.closed())
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	assert.NoError(t, r.AwaitQuiet(ctx, nil))
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
		_, err := client.Write([]byte{0x81, 0x80 | 100, 1, 2, 3, 4, 'x'}) // the head of a masked text of 100 bytes, and one of them
		require.NoError(t, err)
		began := time.Now()
		assert.Contains(t, <-answer, "101 Switching Protocols")
		assert.InDelta(t, time.Minute, time.Since(began), float64(time.Second))
		leave()
	})
}
