package api_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
)

const inTerminal = `{"commands":[{"args":["sh"],"tty":{"rows":30}}]}`

// The input of a terminal waits for its command, and is refused when that has ended.
func TestTerminal(t *testing.T) {
	b := newBed(t)
	b.create(truly) // which has the one place
	first := b.started()
	s := b.create(inTerminal)
	path := "/v1/sessions/" + s.ID + "/commands/1/terminal?rows=50&columns=132"
	answers := make(chan *http.Response)
	go func() { answers <- b.stream(path, wire.ShellProtocol) }()
	first.End(&session.Result{Exited: true})
	u := b.started()
	assert.Equal(t, &session.Terminal{Rows: 30, Columns: 80}, u.Spec.Terminal)
	assert.Equal(t, "xterm-256color", u.Spec.Env["TERM"])
	answer := <-answers
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	require.NoError(t, wire.WriteShellFrame(answer.Body.(io.Writer), wire.ShellData, []byte("keys")))
	_, echoed, err := wire.ReadShellFrame(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "keys", string(echoed))
	u.End(&session.Result{Exited: true})
	_, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	b.until(s.ID, wire.CommandEnded)
	answer = b.stream(path, wire.ShellProtocol)
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
}

// A request that waits for the command ends with the service.
func TestTerminalEndsWithTheService(t *testing.T) {
	b := newBed(t)
	b.create(truly)
	s := b.create(inTerminal)
	answers := make(chan *http.Response)
	go func() { answers <- b.stream("/v1/sessions/"+s.ID+"/commands/1/terminal", wire.ShellProtocol) }()
	require.NoError(t, b.server.Shutdown(t.Context()))
	assert.Equal(t, http.StatusServiceUnavailable, (<-answers).StatusCode)
}

func TestTerminalMistakes(t *testing.T) {
	b := newBed(t)
	for _, body := range []string{
		`{"commands":[{"args":["sh"],"stdin":true,"tty":{}}]}`, `{"commands":[{"args":["sh"],"tty":{"rows":-1}}]}`,
		`{"commands":[{"args":["sh"],"tty":true}]}`, `{"commands":[{"args":["sh"],"tty":{"term":"a\u0000"}}]}`,
	} {
		b.refuses(http.MethodPost, "/v1/sessions", body)
	}
	s := b.create(inTerminal)
	_, f := b.upgrade(4_000_000_000, "/v1/sessions/"+s.ID+"/commands/1/terminal", wire.ShellProtocol)
	assert.Equal(t, wire.NotFound, f.Error.Code)
	_, f = b.upgrade(uint32(0), "/v1/sessions/"+s.ID+"/commands/1/terminal?rows=1", wire.PortProtocol)
	assert.Equal(t, wire.InvalidRequest, f.Error.Code)
}
