package conversation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/upstream"
)

// piped is a line within the process, on the clock of synctest. The endpoint answers a request by HTTP with "by HTTP",
// and one over a WebSocket with a whole answer.
type piped struct {
	*testing.T
	*upstream.Transport
	*Conversations

	answer  func(conn *websocket.Conn) (more bool) // of one request over a WebSocket
	refuse  int                                    // the status with which it refuses WebSockets
	status  int                                    // of an answer by HTTP
	limits  func(http.Header)
	dark    atomic.Bool // WebSockets lose the bytes for the endpoint
	posts   atomic.Int32
	tries   atomic.Int32 // to make a WebSocket
	conns   chan net.Conn
	items   map[string][]string
	longest int // the size of a request
}

// inPipe runs a test with a line within the process. prepare is called before any WebSocket can be made.
func inPipe(t *testing.T, prepare func(p *piped), test func(p *piped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &piped{T: t, Transport: upstream.New(nil, 0), status: http.StatusOK, conns: make(chan net.Conn),
			items: map[string][]string{}, answer: whole, longest: longRequest}
		p.Conversations = New(p, slog.New(slog.DiscardHandler))
		server := &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute}
		running, end := context.WithCancel(context.WithoutCancel(t.Context()))
		var runs sync.WaitGroup
		defer runs.Wait()
		defer func() { _ = server.Close() }()
		defer end()
		runs.Go(func() {
			assert.ErrorIs(t, server.Serve(pipes{p.conns, sync.OnceFunc(func() { close(p.conns) })}), http.ErrServerClosed)
		})
		prepare(p)
		runs.Go(func() { p.Conversations.Run(running) })
		test(p)
	})
}

// pipes is a listener.
type pipes struct {
	conns <-chan net.Conn
	end   func()
}

func (l pipes) Accept() (net.Conn, error) {
	conn, open := <-l.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipes) Close() error { l.end(); return nil }

func (l pipes) Addr() net.Addr { return &net.IPAddr{} }

// darkConn loses the bytes for the endpoint while dark is true.
type darkConn struct {
	net.Conn
	dark *atomic.Bool
}

func (c darkConn) Write(p []byte) (int, error) {
	if c.dark.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Sockets implements Line.
func (p *piped) Sockets() int { return p.Transport.Sockets() }

// Failed implements Line.
func (p *piped) Failed(err error) error { return p.Transport.Failed(err) }

// RoundTrip implements Line.
func (p *piped) RoundTrip(r *http.Request) (*http.Response, error) {
	p.posts.Add(1)
	_, err := io.Copy(io.Discard, r.Body)
	return answerOf(r, p.status, http.Header{}, io.NopCloser(strings.NewReader("by HTTP"))), err
}

// Upgrade implements Line.
func (p *piped) Upgrade(ctx context.Context, address string, h http.Header) (*websocket.Conn, *http.Response, error) {
	p.tries.Add(1)
	if p.refuse != 0 {
		return nil, &http.Response{StatusCode: p.refuse, Header: http.Header{}}, errors.New("refused")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			p.conns <- far
			return darkConn{near, &p.dark}, nil
		}}}
	return websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, HTTPHeader: h})
}

// serve serves a WebSocket. It answers pings at any time.
func (p *piped) serve(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if !assert.NoError(p, err) {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	asked := make(chan bool)
	go func() {
		defer close(asked)
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
			select {
			case asked <- true:
			case <-ctx.Done():
				return
			}
		}
	}()
	for range asked {
		if !p.answer(conn) {
			return
		}
	}
}

// sends sends events over a WebSocket.
func sends(conn *websocket.Conn, events ...string) bool {
	for _, event := range events {
		if conn.Write(context.Background(), websocket.MessageText, []byte(event)) != nil {
			return false
		}
	}
	return true
}

const (
	created   = `{"type":"response.created","response":{"id":"r"}}`
	completed = `{"type":"response.completed","response":{"id":"r"}}`
	quota     = `{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":42,"window_minutes":300,"reset_at":9}}}`
)

func whole(conn *websocket.Conn) bool { return sends(conn, created, completed) }

// try sends the next request of a conversation, which continues the one before.
func (p *piped) try(key string) (*http.Response, error) {
	p.Helper()
	if p.items[key] == nil {
		p.items[key] = []string{strings.Repeat("x", p.longest)}
	}
	p.items[key] = append(p.items[key], "more")
	text, err := json.Marshal(map[string]any{"store": false, "stream": true, "prompt_cache_key": key,
		"input": p.items[key]})
	require.NoError(p, err)
	ctx := p.Context()
	if p.limits != nil {
		ctx = WithLimits(ctx, p.limits)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://endpoint/responses", bytes.NewReader(text))
	require.NoError(p, err)
	return p.Conversations.RoundTrip(r)
}

// ask sends the next request of a conversation, reads its answer, and waits until its WebSocket is made.
func (p *piped) ask(key string) string {
	p.Helper()
	res, err := p.try(key)
	require.NoError(p, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(p, err)
	require.NoError(p, res.Body.Close())
	after(time.Second)
	return string(text)
}

func after(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // of the clock of synctest

// open is how many WebSockets there are.
func (p *piped) open() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sockets)
}

// resting is how long no WebSocket is made.
func (p *piped) resting() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.rest)
}

func nothing(*piped) {}
