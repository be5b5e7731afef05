package attach

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codex-acp, which gives editors codex by the Agent Client Protocol, works in a remote.
func TestCodexACP(t *testing.T) {
	clients := os.Getenv("CODEX_PROXY_TEST_CLIENTS")
	if clients == "" {
		t.Skip("CODEX_PROXY_TEST_CLIENTS does not name the clients of npm")
	}
	b := newBed(t)
	_, socket := b.codex()
	b.serve(socket)
	require.NoError(t, b.model.Always("gpt-5.5", "text hello editor"))
	wrapper := filepath.Join(b.sockets, "codex-build")
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nATTACH_STDIO="+b.sockets+" exec "+self+"\n"), 0o700))

	cmd := exec.Command(clients+"/node", clients+"/node_modules/@agentclientprotocol/codex-acp/dist/index.js")
	cmd.Env = append(os.Environ(), "CODEX_PATH="+wrapper, "CODEX_HOME="+b.homes+"/editor", "HOME="+b.homes)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	say := func(method string, id int, params string) {
		_, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		require.NoError(t, err)
	}
	var seen strings.Builder
	answer := func(id int) json.RawMessage {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err, seen.String())
			seen.WriteString(line)
			var m struct {
				ID     *int
				Method string
				Result json.RawMessage
				Error  json.RawMessage
			}
			if json.Unmarshal([]byte(line), &m) == nil && m.ID != nil && *m.ID == id && m.Method == "" {
				require.Empty(t, string(m.Error), line)
				return m.Result
			}
		}
	}
	say("initialize", 1, `{"protocolVersion":1,"clientCapabilities":{}}`)
	answer(1)
	say("session/new", 2, fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, filepath.Join(b.homes, "remote")))
	var session struct{ SessionID string }
	require.NoError(t, json.Unmarshal(answer(2), &session))
	say("session/prompt", 3, fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"hi"}]}`, session.SessionID))
	assert.Contains(t, string(answer(3)), "end_turn")
	assert.Contains(t, seen.String(), "hello")
}
