package conversation

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/broker/upstream"
	"codex-proxy/test/bench/line"
)

// bed is an endpoint, and the conversations with it.
type bed struct {
	*testing.T
	*Conversations
	endpoint *line.Endpoint
	upstream *upstream.Transport

	mu   sync.Mutex
	seen []line.Request
}

func newBed(t *testing.T, o line.Options, connections int) *bed {
	t.Helper()
	b := &bed{T: t}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var g errgroup.Group
	t.Cleanup(func() { cancel(); assert.NoError(t, g.Wait()) })
	authority, err := line.NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	require.NoError(t, err)
	o.Asked = func(r line.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, r)
	}
	b.endpoint, err = line.Start(ctx, &g, authority, o)
	require.NoError(t, err)
	b.upstream = upstream.New(authority.Pool, connections)
	t.Cleanup(b.upstream.Close)
	b.Conversations = New(b.upstream, slog.New(slog.DiscardHandler))
	runIn(t, b.Conversations)
	return b
}

// runIn runs conversations until the end of the test.
func runIn(t *testing.T, c *Conversations) {
	t.Helper()
	running, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var runs sync.WaitGroup
	runs.Go(func() { c.Run(running) })
	t.Cleanup(func() { end(); runs.Wait() })
}

// last is the last request that the endpoint has got.
func (b *bed) last() line.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[len(b.seen)-1]
}

// talk is the conversation of a client that knows nothing of WebSockets.
type talk struct {
	*bed
	key   string
	items []any
	login string
}

func (b *bed) talk(key string) *talk {
	t := &talk{bed: b, key: key, login: "one"}
	t.says(strings.Repeat("word ", longRequest/5))
	return t
}

func message(role, kind, text string) map[string]any {
	return map[string]any{"type": "message", "role": role, "content": []any{map[string]any{"type": kind, "text": text}}}
}

func (t *talk) says(text string) { t.items = append(t.items, message("user", "input_text", text)) }

func (t *talk) request(change func(map[string]any)) *http.Request {
	body := map[string]any{"model": "m", "store": false, "stream": true, "prompt_cache_key": t.key, "input": t.items,
		"instructions": "Be brief.", "client_metadata": map[string]string{"own": "1"}}
	if change != nil {
		change(body)
	}
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+t.endpoint.Address+"/v1/responses", strings.NewReader(string(text)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+t.login)
	r.Header.Set("X-Codex-Turn-Metadata", `{"turn":"`+fmt.Sprint(len(t.items))+`"}`)
	return r
}

// ask sends the conversation, checks that the endpoint has all of it, and takes the answer into it.
func (t *talk) ask(change func(map[string]any)) line.Request {
	t.Helper()
	res, err := t.RoundTrip(t.request(change))
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusOK, res.StatusCode, string(text))
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	assert.Contains(t, string(text), "event: response.output_text.delta\ndata: {")
	assert.True(t, strings.HasSuffix(string(text), "}\n\n"))
	got := t.last()
	require.Len(t, got.Input, len(t.items), "the endpoint has the whole conversation")
	for i := range t.items {
		own, err := json.Marshal(t.items[i])
		require.NoError(t, err)
		want, ok := essence(own)
		require.True(t, ok)
		has, ok := essence(got.Input[i])
		assert.True(t, ok && has == want, "item %d: %s", i, got.Input[i])
	}
	t.items = append(t.items, message("assistant", "output_text", line.Answer))
	return got
}

// ready waits until the conversation has its WebSocket, or none is made.
func (b *bed) ready() {
	b.Helper()
	require.Eventually(b, func() bool {
		b.Conversations.mu.Lock()
		defer b.Conversations.mu.Unlock()
		return len(b.asked) == 0
	}, time.Minute, time.Millisecond)
}

// The first request of a long conversation goes by HTTP, the second one whole over a WebSocket, and of each later one
// only what is new.
func TestOnlyWhatIsNew(t *testing.T) {
	b := newBed(t, line.Options{}, 0)
	c := b.talk("thread")
	first := c.ask(nil)
	assert.False(t, first.Socket)
	b.ready()
	c.says("second")
	second := c.ask(nil)
	assert.True(t, second.Socket)
	assert.Empty(t, second.Previous)
	assert.Greater(t, second.Size, longRequest)
	for n := range 3 {
		c.says(fmt.Sprint("more ", n))
		more := c.ask(nil)
		assert.True(t, more.Socket)
		assert.Equal(t, fmt.Sprintf("resp_%d", 2+n), more.Previous)
		assert.Less(t, more.Size, 2000, "only what is new")
		assert.Equal(t, map[string]string{"own": "1", "x-codex-turn-metadata": fmt.Sprintf(`{"turn":"%d"}`, len(c.items)-1)},
			more.Metadata)
	}
	seen := b.upstream.Line()
	assert.Equal(t, uint64(3), seen.Continued)
	assert.Equal(t, 1, seen.Sockets)
	assert.Equal(t, 2, seen.Connections)
	assert.Equal(t, int64(1), b.endpoint.Counts().Upgrades)
}

// What does not continue the conversation goes whole: other properties, another beginning, another login, another key.
func TestWhole(t *testing.T) {
	for name, change := range map[string]func(c *talk) func(map[string]any){
		"properties": func(*talk) func(map[string]any) {
			return func(body map[string]any) { body["instructions"] = "Be verbose." }
		},
		"tools": func(*talk) func(map[string]any) {
			return func(body map[string]any) { body["tools"] = []any{map[string]any{"type": "function", "name": "f"}} }
		},
		"beginning": func(c *talk) func(map[string]any) {
			c.items[0] = message("user", "input_text", strings.Repeat("other ", longRequest/5))
			return nil
		},
		"answer": func(c *talk) func(map[string]any) {
			c.items[1] = message("assistant", "output_text", "It rains.")
			return nil
		},
		"fewer": func(c *talk) func(map[string]any) { c.items = c.items[:1]; return nil },
		"login": func(c *talk) func(map[string]any) { c.login = "two"; return nil },
		"key":   func(c *talk) func(map[string]any) { c.key = "other"; return nil },
		"stored": func(*talk) func(map[string]any) {
			return func(body map[string]any) { body["store"] = true }
		},
		"with a response of its own": func(*talk) func(map[string]any) {
			return func(body map[string]any) { body["conversation"] = "resp_1" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, line.Options{}, 0)
			c := b.talk("thread")
			c.ask(nil)
			b.ready()
			c.says("second")
			c.ask(nil)
			c.says("third")
			got := c.ask(change(c))
			assert.False(t, got.Socket)
			assert.Empty(t, got.Previous)
		})
	}
}

// A short conversation needs no WebSocket.
func TestShort(t *testing.T) {
	b := newBed(t, line.Options{}, 0)
	c := b.talk("thread")
	c.items = nil
	for n := range 3 {
		c.says(fmt.Sprint("short ", n))
		assert.False(t, c.ask(nil).Socket)
		b.ready()
	}
	assert.Zero(t, b.endpoint.Counts().Upgrades)
}

// A WebSocket that the endpoint has closed costs a request nothing: it goes by HTTP, and a new one is made.
func TestClosed(t *testing.T) {
	b := newBed(t, line.Options{Idle: 300 * time.Millisecond}, 0)
	c := b.talk("thread")
	c.ask(nil)
	b.ready()
	require.Eventually(t, func() bool { return b.upstream.Line().Sockets == 0 }, time.Minute, time.Millisecond)
	c.says("second")
	assert.False(t, c.ask(nil).Socket)
}

// An endpoint without WebSockets is asked once.
func TestRefused(t *testing.T) {
	for _, status := range []int{http.StatusUpgradeRequired, http.StatusForbidden, http.StatusTooManyRequests} {
		b := newBed(t, line.Options{Refuse: status}, 0)
		c := b.talk("thread")
		for range 3 {
			c.says("more")
			assert.False(t, c.ask(nil).Socket)
			b.ready()
		}
		assert.Equal(t, int64(2), b.endpoint.Counts().Connections, "HTTP, and one try")
	}
}

// The bound of WebSockets: a conversation without one goes by HTTP.
func TestBound(t *testing.T) {
	b := newBed(t, line.Options{}, 4)
	var talks []*talk
	for n := range 5 {
		talks = append(talks, b.talk(fmt.Sprint("thread ", n)))
		talks[n].ask(nil)
		b.ready()
	}
	sockets := 0
	for _, c := range talks {
		c.says("more")
		if c.ask(nil).Socket {
			sockets++
		}
	}
	assert.Equal(t, 2, sockets)
	assert.Equal(t, int64(2), b.endpoint.Counts().Upgrades)
	none := newBed(t, line.Options{}, 1)
	assert.Zero(t, none.upstream.Sockets())
	none.talk("thread").ask(nil)
}

// A second request of a conversation whose WebSocket is at work goes by HTTP, and an interrupted answer ends the
// WebSocket.
func TestBusy(t *testing.T) {
	b := newBed(t, line.Options{}, 0)
	c := b.talk("thread")
	c.ask(nil)
	b.ready()
	c.says("second")
	ctx, cancel := context.WithCancel(t.Context())
	res, err := b.RoundTrip(c.request(nil).WithContext(ctx))
	require.NoError(t, err)
	assert.True(t, b.last().Socket)
	other, err := b.RoundTrip(c.request(nil))
	require.NoError(t, err)
	require.NoError(t, other.Body.Close())
	assert.False(t, b.last().Socket)
	cancel()
	_, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, res.Body.Close())
	require.Eventually(t, func() bool { return b.upstream.Line().Sockets == 0 }, time.Minute, time.Millisecond)
	assert.False(t, c.ask(nil).Socket)
}

// The endpoint's certificate is checked for WebSockets, too.
func TestTrust(t *testing.T) {
	b := newBed(t, line.Options{}, 0)
	stranger := upstream.New(nil, 0)
	_, _, err := stranger.Upgrade(t.Context(), "https://"+b.endpoint.Address+"/v1/responses", http.Header{})
	var untrusted *tls.CertificateVerificationError
	require.ErrorAs(t, err, &untrusted)
	_, _, err = b.upstream.Upgrade(t.Context(), "https://127.0.0.1:9/responses?key=secret", http.Header{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}
