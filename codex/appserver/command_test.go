package appserver_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/rpc"
)

func TestRunCommand(t *testing.T) {
	c := connect(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"command/exec": reply(`{"exitCode":101,"stdout":"","stderr":"no sandbox"}`),
	}})
	r, err := c.RunCommand(t.Context(), []string{"/bin/true"}, time.Second)
	require.NoError(t, err)
	assert.Equal(t, appserver.CommandResult{ExitCode: 101, Stderr: "no sandbox"}, r)

	c = connect(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"command/exec": func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
			p.Refuse(id, rpc.CodeInvalidRequest, "unknown variant")
			return true
		},
	}})
	_, err = c.RunCommand(t.Context(), []string{"/bin/true"}, time.Second)
	assert.ErrorContains(t, err, "cannot run a command: codex app-server: unknown variant")
}

func reply(result string) appservertest.Fault {
	return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
		p.Reply(id, json.RawMessage(result))
		return true
	}
}
