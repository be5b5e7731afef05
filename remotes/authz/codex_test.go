package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
)

// home is a CODEX_HOME whose model provider is the model server.
func home(t testing.TB, provider string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "authz") // short, for the path of a socket in it
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(fmt.Sprintf(`
model = "gpt-5.5"
model_provider = "loop"
check_for_update_on_startup = false
thread_unload_delay_secs = 0
sandbox_mode = "read-only"
features.unbounded_connection_retries = false
projects.%q.trust_level = "trusted"
[model_providers.loop]
name = "loop"
base_url = "%s/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`, dir, provider)), 0o600))
	return dir
}

// appServer runs a real codex app-server.
func appServer(t testing.TB, binary string, model *modelserver.Server) (socket string) {
	t.Helper()
	dir := home(t, model.URL())
	socket = filepath.Join(dir, "s")
	var stderr bytes.Buffer
	cmd := exec.Command(binary, codexes.AppServer(binary, socket)...)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+dir, "HOME="+dir)
	cmd.Dir, cmd.Stderr = dir, &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if target, err := os.Readlink(socket); err == nil { // a killed codex leaves them in /tmp
			defer os.Remove(target)
			defer os.Remove(target + ".lock")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	require.Eventually(t, func() bool { _, err := os.Stat(socket); return err == nil }, patience, 5*time.Millisecond)
	return socket
}

// client is a JSON-RPC client of codex.
type client struct {
	t    testing.TB
	ws   *websocket.Conn
	last int
	seen []string // methods of what came beside answers
}

type reply struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Params json.RawMessage
	Error  struct{ Message string }
}

func attach(t testing.TB, socket string) *client {
	t.Helper()
	ws, _ := dial(t, socket)
	c := &client{t: t, ws: ws}
	require.Empty(t, c.call("initialize",
		`{"clientInfo":{"name":"test","version":"1"},"capabilities":{"experimentalApi":true}}`).Error.Message)
	say(t, ws, `{"method":"initialized"}`)
	return c
}

func (c *client) next() (r reply) {
	c.t.Helper()
	require.NoError(c.t, json.Unmarshal([]byte(hear(c.t, c.ws)), &r))
	if r.Method != "" {
		c.seen = append(c.seen, r.Method)
	}
	return r
}

func (c *client) call(method, params string) reply {
	c.t.Helper()
	c.last++
	say(c.t, c.ws, `{"id":%d,"method":%q,"params":%s}`, c.last, method, params)
	for {
		if r := c.next(); r.Method == "" && string(r.ID) == fmt.Sprint(c.last) {
			return r
		}
	}
}

// until reads up to a message of that method.
func (c *client) until(method string) reply {
	c.t.Helper()
	for {
		if r := c.next(); r.Method == method {
			return r
		}
	}
}

func (c *client) thread(config string) string {
	c.t.Helper()
	r := c.call("thread/start", config)
	require.Empty(c.t, r.Error.Message)
	var result struct{ Thread struct{ ID string } }
	require.NoError(c.t, json.Unmarshal(r.Result, &result))
	return result.Thread.ID
}

// The relay in front of each codex of the tests that remotes take. The tests of one share its process.
func TestCodex(t *testing.T) {
	codexes.Each(t, versions.OldestForRemotes, func(t *testing.T, _ int, program string) {
		model := modelserver.Start(t, "gpt-5.5")
		socket := appServer(t, program, model)
		t.Run("behind the proxy", func(t *testing.T) { testCodexBehindTheProxy(t, model, socket) })
		t.Run("writes the method first", func(t *testing.T) { testCodexWritesTheMethodFirst(t, model, socket) })
		t.Run("refuses", func(t *testing.T) { testGateReportsWhatCodexRefuses(t, socket) })
	})
}

// An approval of the real codex goes to owners, and the first answer counts; a viewer sees the turn, and neither the
// question nor a way to answer it.
func testCodexBehindTheProxy(t *testing.T, model *modelserver.Server, socket string) {
	var p Proxy
	owner, viewer := open(t, &p, socket)
	one := attach(t, owner)
	thread := one.thread(`{"approvalPolicy":"untrusted","sandbox":"read-only"}`)

	for method, words := range map[string]string{
		"account/logout":      "login of a remote",
		"account/login/start": "login of a remote",
		"config/value/write":  "/etc/codex-proxy/remotes",
		"process/spawn":       "command/exec",
		"fs/writeFile":        "past the sandbox",
		"no/suchMethod":       "this is none of them",
	} {
		assert.Contains(t, one.call(method, `{}`).Error.Message, words)
	}
	assert.Contains(t, one.call("thread/start", `{"config":{"model_providers.x.base_url":"http://evil"}}`).Error.Message,
		"model_providers.x.base_url")
	assert.Empty(t, one.call("thread/start", `{"ephemeral":true,"config":{"features.shell_tool":false,"mcp_servers":{}}}`).
		Error.Message)

	require.NoError(t, model.Script("call exec_command "+`{"cmd":"touch /nonexistent/file"}`))
	require.NoError(t, model.Script("text done"))
	turn := one.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"hi"}]}`, thread))
	require.Empty(t, turn.Error.Message)
	question := one.until("item/commandExecution/requestApproval")

	watching := attach(t, viewer)
	assert.Empty(t, watching.call("thread/resume", fmt.Sprintf(
		`{"threadId":%q,"sandbox":"danger-full-access","approvalPolicy":"never"}`, thread)).Error.Message)
	assert.Contains(t, watching.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":"x"}`, thread)).Error.Message,
		"only reads")
	assert.Contains(t, watching.call("thread/start", `{}`).Error.Message, "only reads")
	say(t, watching.ws, `{"id":%s,"result":{"decision":"accept"}}`, question.ID) // goes nowhere
	assert.Empty(t, watching.call("thread/list", `{}`).Error.Message)

	second := attach(t, owner)
	assert.Empty(t, second.call("thread/resume", fmt.Sprintf(`{"threadId":%q}`, thread)).Error.Message)
	again := second
	asked := false
	for _, m := range second.seen {
		asked = asked || m == "item/commandExecution/requestApproval"
	}
	if !asked {
		question = again.until("item/commandExecution/requestApproval")
	}
	say(t, second.ws, `{"id":%s,"result":{"decision":"decline"}}`, question.ID)
	one.until("serverRequest/resolved")
	one.until("turn/completed")
	watching.until("turn/completed")
	assert.NotContains(t, watching.seen, "item/commandExecution/requestApproval")
}

// codex writes the method and the id of its requests before their parameters: the proxy reads no further.
func testCodexWritesTheMethodFirst(t *testing.T, model *modelserver.Server, socket string) {
	ws, _ := dialPlain(t, socket)
	c := &client{t: t, ws: ws}
	c.call("initialize", `{"clientInfo":{"name":"test","version":"1"},"capabilities":{"experimentalApi":true}}`)
	say(t, ws, `{"method":"initialized"}`)
	thread := c.thread(`{"dynamicTools":[{"type":"function","name":"look","description":"d",` +
		`"inputSchema":{"type":"object","properties":{}}}]}`)
	require.NoError(t, model.Script("call look {}"))
	c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"hi"}]}`, thread))
	for {
		m := hear(t, ws)
		if !strings.Contains(m, `"item/tool/call"`) || !strings.Contains(m, `"callId"`) {
			continue
		}
		if at := strings.Index(m, `"params"`); at > 0 && strings.Contains(m, `"id":`) && strings.Contains(m[:at], `"method"`) &&
			!strings.Contains(m, `"item":{`) {
			assert.Contains(t, m[:at], `"id":`, m)
			return
		}
	}
}

func dialPlain(t testing.TB, socket string) (*websocket.Conn, context.Context) {
	t.Helper()
	owner, _ := open(t, &Proxy{}, socket)
	ws, _ := dial(t, owner)
	return ws, bounded(t)
}

// codex refuses a message without the thread or the turn that it is for. The manager learns of that before the client,
// and a client that leaves then is not waited for.
func testGateReportsWhatCodexRefuses(t *testing.T, socket string) {
	var passed, failed []string
	detached := make(chan Session, 1)
	owner, _ := open(t, &Proxy{
		Forwarding: func(_ Session, r Request) { passed = append(passed, r.ID+" "+r.Method) },
		Failed:     func(s Session, id string) { failed = append(failed, fmt.Sprint(s.ID, " ", id)) },
		Detached:   func(s Session) { detached <- s },
	}, socket)
	c := attach(t, owner)
	words := c.call("turn/steer", `{"threadId":"01a20aba-7cdd-7362-82ac-fa590110caa5","input":[],"expectedTurnId":"x"}`).Error.Message
	assert.Contains(t, words, "thread not found")
	assert.Equal(t, []string{"1 2"}, failed)
	assert.Equal(t, "2 turn/steer", passed[len(passed)-1])
	assert.Empty(t, c.call("thread/list", `{}`).Error.Message)
	assert.Len(t, failed, 1)
	began := time.Now()
	_ = c.ws.Close(websocket.StatusNormalClosure, "") // codex closes without an answer
	<-detached
	assert.Less(t, time.Since(began), answerBound, "every request has its answer")
}

func TestReadAnswer(t *testing.T) {
	long := strings.Repeat("x", beginning)
	for head, want := range map[string]string{
		`{"id":1,"result":{"error":1}}`:                                 "an answer",
		`{"id":"a","error":{"code":-1}}`:                                `an error to "a"`,
		`{"error":{"code":-32600,"message":"no \"method\":"},"id":"a"}`: `an error to "a"`,
		`{"error":{"code":-32600,"message":"` + long:                    "an answer",
		`{"id":1,"result":{"x":"` + long:                                "an answer",
		`{"method":"error","params":{}}`:                                "none",
		`{"id":1,"method":"item/tool/call","params":{"error":1}}`:       "none",
	} {
		got := "none"
		if is, failed := readAnswer([]byte(head)); failed != nil {
			got = "an error to " + string(failed)
		} else if is {
			got = "an answer"
		}
		assert.Equal(t, want, got, "%.100s", head)
	}
}
