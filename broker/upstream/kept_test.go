package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a listener without a network, for tests of time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
	dialed atomic.Int64
}

// over has a transport connect to a server by pipes. wrap changes the transport's end.
func over(t *testing.T, transport *Transport, wrap func(net.Conn) net.Conn) *pipes {
	t.Helper()
	closed := make(chan struct{})
	p := &pipes{conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
	transport.connect = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		p.dialed.Add(1)
		p.conns <- theirs
		return wrap(ours), nil
	}
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// finish reads the answer, so that its connection is free.
func finish(t *testing.T, res *http.Response, err error) string {
	t.Helper()
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// A connection of HTTP/1.1 that was idle for long serves no request: the endpoint may be closing it.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := New(nil, 0)
		p := over(t, transport, func(c net.Conn) net.Conn { return c })
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
		go func() { _ = server.Serve(p) }()
		for _, step := range []struct {
			idle  time.Duration
			conns int64
		}{{0, 1}, {idleBound / 2, 1}, {idleBound, 2}, {idleBound - 1, 2}} {
			time.Sleep(step.idle) //nolint:forbidigo // of the clock of synctest
			res, err := post(t, transport, "http://endpoint", "hello")
			assert.Equal(t, "hello", finish(t, res, err))
			assert.Equal(t, step.conns, p.dialed.Load())
		}
		transport.Close()
		require.NoError(t, server.Close())
	})
}

// A kept connection that ends in place of an answer takes no request with it. One that is new does.
func TestKeptConnectionEnds(t *testing.T) {
	var served, cut atomic.Int64
	address := listen(t, func(conn net.Conn) {
		defer conn.Close()
		from := bufio.NewReader(conn)
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if _, err = from.ReadByte(); err == nil {
			cut.Add(1)
		}
	})
	transport := New(nil, 0)
	defer transport.Close()
	body := strings.Repeat("x", 20<<10)
	for range 20 {
		res, err := post(t, transport, "http://"+address, body)
		assert.Equal(t, "ok", finish(t, res, err))
	}
	assert.EqualValues(t, 20, served.Load())
	assert.Positive(t, cut.Load())
}

// A request that the endpoint has had for a while is not sent again: it may have been read.
func TestLateEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := New(nil, 0)
		p := over(t, transport, func(c net.Conn) net.Conn { return c })
		var requests atomic.Int64
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if requests.Add(1) > 1 {
				time.Sleep(closeBound) //nolint:forbidigo // of the clock of synctest
				panic(http.ErrAbortHandler)
			}
		})}
		go func() { _ = server.Serve(p) }()
		res, err := post(t, transport, "http://endpoint", "hello")
		finish(t, res, err)
		_, err = post(t, transport, "http://endpoint", "hello")
		var failed *Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, Cut, failed.Reason)
		assert.EqualValues(t, 2, requests.Load())
		transport.Close()
		require.NoError(t, server.Close())
	})
}
