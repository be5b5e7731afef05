package sessions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/ports"
)

// preview is a web server in a session, and its port: it echoes the messages of a WebSocket.
func preview(t *testing.T) uint16 {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
}

// forwarded awaits the line about a port, and returns the address there.
func forwarded(t *testing.T, lines io.Reader, port uint16) (address, session string) {
	t.Helper()
	var remote uint16
	_, err := fmt.Fscanf(lines, "http://%s -> port %d of session %s\n", &address, &remote, &session)
	require.NoError(t, err)
	assert.Equal(t, port, remote)
	return address, session
}

// A port is forwarded while the command runs, for WebSockets as well, over a new daemon, and not afterwards.
func TestRunForwards(t *testing.T) {
	port, end := preview(t), make(chan struct{})
	r := try(t, func(c *apitest.Command) {
		<-end
		c.End(succeeded)
	})
	lines, stderr := io.Pipe()
	r.Stderr, r.Ports = stderr, []ports.Mapping{{Remote: port}}
	ended := make(chan error, 1)
	go func() { ended <- r.Run.Run(t.Context()) }()
	address, _ := forwarded(t, lines, port)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	echo := func(conn *websocket.Conn) {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("hello")))
		_, message, err := conn.Read(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "hello", string(message))
	}
	conn, _, err := websocket.Dial(t.Context(), "http://"+address, nil)
	require.NoError(t, err)
	defer conn.CloseNow()
	echo(conn)
	r.daemon.Down()
	_, _, err = conn.Read(t.Context())
	require.Error(t, err, "the connection ends with the daemon")
	r.daemon.Up()
	conn, _, err = websocket.Dial(t.Context(), "http://"+address, nil)
	require.NoError(t, err)
	defer conn.CloseNow()
	echo(conn)
	close(end)
	require.NoError(t, <-ended)
	_, _, err = conn.Read(t.Context())
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", address)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A port that is taken is an error before a command runs.
func TestRunWithAPortThatIsTaken(t *testing.T) {
	r := try(t, func(c *apitest.Command) { c.End(succeeded) })
	port := preview(t)
	r.Ports = []ports.Mapping{{Remote: 80}, {Local: port, Remote: 8080}}
	status, text := r.run(t)
	assert.Equal(t, RunnerFailed, status)
	assert.Contains(t, text, fmt.Sprintf("cannot listen on 127.0.0.1:%d: bind: address already in use", port))
	all, err := r.Client.Sessions(t.Context(), client.Filter{})
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestPortForward(t *testing.T) {
	port, end := preview(t), make(chan struct{})
	r := try(t, func(c *apitest.Command) {
		<-end
		c.End(succeeded)
	})
	r.Detach = true
	status, _ := r.run(t)
	require.Zero(t, status)
	id := strings.TrimSpace(r.stdout.String())
	lines, stdout := io.Pipe()
	p := PortForward{Client: r.Client, Stdout: stdout, Stderr: io.Discard, Ports: []ports.Mapping{{Remote: port}}}
	ended := make(chan error, 1)
	go func() { ended <- p.Forward(t.Context(), id) }()
	address, session := forwarded(t, lines, port)
	assert.Equal(t, id, session)
	conn, _, err := websocket.Dial(t.Context(), "http://"+address, nil)
	require.NoError(t, err)
	_ = conn.CloseNow()
	close(end)
	require.NoError(t, <-ended)
	assert.ErrorContains(t, p.Forward(t.Context(), id), "no command of the session "+id+" runs")
}

// The end of the context ends a forward while the command goes on.
func TestPortForwardIsLeft(t *testing.T) {
	r, id := held(t)
	ctx, cancel := context.WithCancel(t.Context())
	lines, stdout := io.Pipe()
	var stderr bytes.Buffer
	p := PortForward{Client: r.Client, Stdout: stdout, Stderr: &stderr, Ports: []ports.Mapping{{Remote: 1}}}
	ended := make(chan error, 1)
	go func() { ended <- p.Forward(ctx, id) }()
	forwarded(t, lines, 1)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	s, err := r.Client.Session(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, wire.CommandHeld, s.Commands[0].State)
	assert.Empty(t, stderr.String())
}

func TestForwardsNeedAnOwnNetwork(t *testing.T) {
	r := try(t, func(c *apitest.Command) { c.End(outcome.Outcome{Word: outcome.Succeeded}) })
	r.New.Network, r.Keep = true, true
	status, _ := r.run(t)
	require.Zero(t, status)
	r.Session, r.Ports = r.only(t).ID, []ports.Mapping{{Remote: 80}}
	status, text := r.run(t)
	assert.Equal(t, RunnerFailed, status)
	assert.Contains(t, text, "has the network of the host, where its servers are: connect to their ports")
	assert.ErrorContains(t, PortForward{Client: r.Client, Ports: r.Ports}.Forward(t.Context(), r.Session), "has the network")
}
