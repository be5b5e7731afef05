package attach

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// editor is codex-acp as an editor runs it, with `attach --stdio` as its codex.
type editor struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Reader
	seen  strings.Builder
	ended chan struct{}
	exits chan struct{} // of `attach --stdio`
	last  int
}

// acpMessage is one message of codex-acp.
type acpMessage struct {
	ID     *int
	Method string
	Result json.RawMessage
	Error  json.RawMessage
}

func (b *bed) editor() *editor {
	b.t.Helper()
	clients := os.Getenv("CODEX_PROXY_TEST_CLIENTS")
	if clients == "" {
		b.t.Skip("CODEX_PROXY_TEST_CLIENTS does not name the clients of npm")
	}
	wrapper := filepath.Join(b.sockets, "codex-build")
	self, err := os.Executable()
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(wrapper, []byte("#!/bin/sh\nATTACH_STDIO="+b.sockets+" exec "+self+"\n"), 0o700))
	cmd := exec.Command(clients+"/node", clients+"/node_modules/@agentclientprotocol/codex-acp/dist/index.js")
	cmd.Env = append(os.Environ(), "CODEX_PATH="+wrapper, "CODEX_HOME="+b.homes+"/editor", "HOME="+b.homes)
	in, err := cmd.StdinPipe()
	require.NoError(b.t, err)
	talk, err := cmd.StderrPipe()
	require.NoError(b.t, err)
	out, w, err := os.Pipe()
	require.NoError(b.t, err)
	cmd.Stdout = w
	require.NoError(b.t, cmd.Start())
	require.NoError(b.t, w.Close())
	e := &editor{t: b.t, in: in, lines: bufio.NewReader(out), ended: make(chan struct{}), exits: make(chan struct{}, 8)}
	go func() {
		defer close(e.ended)
		for lines := bufio.NewScanner(talk); lines.Scan(); {
			if strings.Contains(lines.Text(), "APP-SERVER EXIT") {
				e.exits <- struct{}{}
			}
		}
		_ = cmd.Wait()
	}()
	b.t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); <-e.ended; out.Close() })
	e.result("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
	return e
}

// call returns the answer to a request.
func (e *editor) call(method, params string) (m acpMessage) {
	e.t.Helper()
	e.last++
	_, err := fmt.Fprintf(e.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", e.last, method, params)
	require.NoError(e.t, err)
	for {
		line, err := e.lines.ReadString('\n')
		require.NoError(e.t, err, e.seen.String())
		e.seen.WriteString(line)
		m = acpMessage{}
		if json.Unmarshal([]byte(line), &m) == nil && m.ID != nil && *m.ID == e.last && m.Method == "" {
			return m
		}
	}
}

func (e *editor) result(method, params string) json.RawMessage {
	e.t.Helper()
	m := e.call(method, params)
	require.Empty(e.t, string(m.Error))
	return m.Result
}

func prompt(session, text string) string {
	return fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, session, text)
}

// codex-acp, which gives editors codex by the Agent Client Protocol, works in a remote, also after a restart of the remote:
// it starts `attach --stdio` again, and goes on with the session.
func TestCodexACP(t *testing.T) {
	b := newBed(t)
	u := newUnit(b)
	u.boot()
	require.NoError(t, b.model.Always("gpt-5.5", "text hello editor"))
	e := b.editor()
	cwd := filepath.Join(b.homes, "remote")
	var session struct{ SessionID string }
	require.NoError(t, json.Unmarshal(e.result("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, cwd)), &session))
	assert.Contains(t, string(e.result("session/prompt", prompt(session.SessionID, "hi"))), "end_turn")
	assert.Contains(t, e.seen.String(), "hello")

	u.restart()
	select {
	case <-e.exits:
	case <-time.After(bound):
		t.Fatal("codex-acp does not notice the end of its codex")
	}
	assert.Contains(t, string(e.result("session/prompt", prompt(session.SessionID, "are you there?"))), "end_turn")
	assert.Contains(t, string(b.model.Turns()[len(b.model.Turns())-1].Body.Raw), "hello editor", "it is the same conversation")
}
