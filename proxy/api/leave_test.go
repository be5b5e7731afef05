package api_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A server that leaves turns no client away: not who is being answered, not who
// has a connection, and not who comes: that one waits for whoever shares the
// listening socket.
func TestLeave(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	shared, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	defer shared.Close()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()

	inflight := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(inflight.Body)
	apitest.Frame(t, body)
	idle := r.Do(t, http.MethodGet, "/livez", "")
	apitest.Text(t, idle)
	assert.False(t, idle.Close)

	r.Connections.Leave(t.Context())
	require.NoError(t, apitest.Received(t, served), "leaving is not a failure")
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	taken, err := shared.Accept()
	require.NoError(t, err)
	defer taken.Close()

	kept := r.Do(t, http.MethodGet, "/livez", "")
	apitest.Text(t, kept)
	assert.Equal(t, http.StatusOK, kept.StatusCode)
	assert.True(t, kept.Close, "the client must be told to use another connection")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, r.Connections.AwaitQuiet(ctx, nil), context.Canceled, "a stream is in flight")
	close(gate)
	got := apitest.Frames(t, apitest.Unread(inflight, body))
	assert.Equal(t, "[DONE]", got[len(got)-1])
	hurry := make(chan struct{})
	close(hurry)
	assert.NoError(t, r.Connections.AwaitQuiet(t.Context(), hurry))
}

// An answer that begins after its server has begun to leave sends its client
// elsewhere, however long before that the request came.
func TestLeaveDuringARequest(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")})
	answered := make(chan *http.Response, 1)
	go func() { answered <- r.Chatting(t, apitest.Hello("")) }()
	for r.Connections.Unanswered() == 0 {
		apitest.Received(t, r.Connections.Changed())
	}
	r.Connections.StopAccepting()
	close(gate)
	res := apitest.Received(t, answered)
	apitest.Text(t, res)
	assert.True(t, res.Close, "the next request on this connection would meet its end")
}

// A stream that had begun before could not say so: its connection stays for a moment,
// and the client that comes back on it is answered.
func TestRest(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")})
	stream := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(stream.Body)
	apitest.Frame(t, body)
	r.Connections.Leave(t.Context())
	assert.True(t, r.Connections.Rest(t.Context()), "a stream is in flight")
	close(gate)
	apitest.Frames(t, apitest.Unread(stream, body))
	for r.Connections.Unanswered() > 0 {
		apitest.Received(t, r.Connections.Changed())
	}
	assert.False(t, r.Connections.Rest(t.Context()), "nothing has come")
	kept := r.Do(t, http.MethodGet, "/livez", "")
	apitest.Text(t, kept)
	assert.True(t, kept.Close)
}

// What a stop or a restart waits for: requests whose heads are here, but for those
// that have come since all are refused.
func TestUnanswered(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	uploading := func() (rest func()) {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn,
			"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer := bufio.NewReader(conn)
		line, err := answer.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "100 Continue")
		return func() {
			_, err = io.WriteString(conn, "{}")
			require.NoError(t, err)
			line, err := io.ReadAll(answer)
			require.NoError(t, err)
			assert.Contains(t, string(line), "400 Bad Request")
			require.NoError(t, conn.Close())
		}
	}
	silent, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	assert.Zero(t, r.Connections.Unanswered())
	first, second := uploading(), uploading()
	assert.Equal(t, 2, r.Connections.Unanswered())
	r.Connections.Refuse()
	late := uploading()
	assert.Equal(t, 2, r.Connections.Unanswered())
	for _, rest := range []func(){late, first, second} {
		rest()
	}
	for r.Connections.Unanswered() > 0 {
		apitest.Received(t, r.Connections.Changed())
	}
	r.Connections.StopAccepting()
	require.NoError(t, apitest.Received(t, served))
}

// A stop waits for requests on WebSockets, too, be there a turn yet or not.
func TestUnansweredOnASocket(t *testing.T) {
	images := &apitest.Gallery{Begun: make(chan struct{})}
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.Images = images })
	fetching := func() *apitest.Socket {
		k := r.Socket(t)
		k.Say(apitest.Create("", `[{"role":"user","content":[{"type":"input_image","image_url":"https://a/slow"}]}]`))
		apitest.Received(t, images.Begun)
		return k
	}
	first := fetching()
	assert.Equal(t, 1, r.Connections.Unanswered())
	r.Connections.Refuse()
	late := fetching()
	assert.Equal(t, 1, r.Connections.Unanswered(), "what comes later is refused, and not waited for")
	require.NoError(t, first.CloseNow())
	for r.Connections.Unanswered() > 0 {
		apitest.Received(t, r.Connections.Changed())
	}
	require.NoError(t, late.CloseNow())
}

// TestShutdownAfterStopAccepting: a listener that was closed by StopAccepting and whose
// accepting loop has not noticed yet is no reason to cut anybody off.
func TestShutdownAfterStopAccepting(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	l := &lateListener{accepting: make(chan struct{}), ended: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	<-l.accepting
	r.Connections.StopAccepting()
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, apitest.Received(t, served))
}

// lateListener hears of its end when it is closed for the second time.
type lateListener struct {
	net.Listener

	accepting chan struct{} // closed when the loop waits
	ended     chan struct{}
	closes    atomic.Int32
}

func (l *lateListener) Accept() (net.Conn, error) {
	close(l.accepting)
	<-l.ended
	return nil, net.ErrClosed
}

func (l *lateListener) Close() error {
	if l.closes.Add(1) == 1 {
		return nil
	}
	close(l.ended)
	return net.ErrClosed
}

func (*lateListener) Addr() net.Addr { return &net.UnixAddr{Name: "late", Net: "unix"} }
