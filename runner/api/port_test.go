package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
)

// port asks for a connection to a port.
func (b *bed) port(id string, port int) *http.Response {
	b.t.Helper()
	return b.stream(fmt.Sprintf("/v1/sessions/%s/ports/%d", id, port), wire.PortProtocol)
}

// stream asks for a stream.
func (b *bed) stream(path, protocol string) *http.Response {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://codex-runner"+path, nil)
	require.NoError(b.t, err)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	answer, err := b.client.Do(request)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// until waits for a state of the first command of a session.
func (b *bed) until(id string, state wire.CommandState) {
	b.t.Helper()
	text := ""
	for end := time.Now().Add(patience); !strings.Contains(text, `"state":"`+string(state)+`"`); {
		require.True(b.t, time.Now().Before(end), text)
		_, text = b.send(http.MethodGet, "/v1/sessions/"+id+"/commands/1", "")
	}
}

func (b *bed) runs(body string) wire.Session {
	b.t.Helper()
	s := b.create(body)
	u := b.started()
	b.t.Cleanup(func() { u.End(&session.Result{Exited: true}) })
	return s
}

// The daemon passes the bytes of a connection on as they are, until its own end.
func TestPort(t *testing.T) {
	b := newBed(t)
	s := b.runs(truly)
	answer := b.port(s.ID, 8080)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	assert.Equal(t, wire.PortProtocol, answer.Header.Get("Upgrade"))
	stream := wire.NewPortStream(answer.Body.(io.ReadWriteCloser), answer.Body)
	_, err := stream.Write([]byte("echo"))
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(stream, got)
	require.NoError(t, err)
	assert.Equal(t, "echo", string(got))
	require.NoError(t, b.server.Shutdown(t.Context()))
	_, err = stream.Read(got)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "that is no end of the answer")
}

// A stranger has the answer of a session that is not there, the owner that of a session in which nothing runs.
func TestPortIsTheOwners(t *testing.T) {
	b := newBed(t)
	s := b.runs(truly)
	path := "/v1/sessions/" + s.ID + "/ports/8080"
	_, f := b.upgrade(4_000_000_000, path, wire.PortProtocol)
	assert.Equal(t, wire.NotFound, f.Error.Code)
	_, none := b.upgrade(4_000_000_000, "/v1/sessions/aaaaaaaaaaaaaaaa/ports/8080", wire.PortProtocol)
	assert.Equal(t, none.Error.Message, strings.ReplaceAll(f.Error.Message, s.ID, "aaaaaaaaaaaaaaaa"))
	waits := b.create(truly)
	answer := b.port(waits.ID, 8080)
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "no command of the session "+waits.ID+" runs")
}

// The loopback of the host is not forwarded.
func TestPortOfTheHost(t *testing.T) {
	b := newBed(t)
	s := b.runs(`{"network":true,"commands":[{"args":["true"]}]}`)
	answer := b.port(s.ID, 8080)
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "has the network of the host")
	assert.Contains(t, string(text), "connect to 127.0.0.1:8080")
}

func TestPortsOutOfRange(t *testing.T) {
	b := newBed(t)
	for _, port := range []string{"0", "65536", "x", "-1", "80a"} {
		b.refuses(http.MethodPost, "/v1/sessions/aaaaaaaaaaaaaaaa/ports/"+port, "")
	}
}
