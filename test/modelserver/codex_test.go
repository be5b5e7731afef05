package modelserver

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codexHome is a CODEX_HOME whose model provider is s, with no tries beyond the first.
func codexHome(t *testing.T, s *Server) string {
	t.Helper()
	home := t.TempDir()
	config := fmt.Sprintf(`model = "gpt-5.5"
model_provider = "test"
approval_policy = "never"
[features]
unbounded_connection_retries = false
[model_providers.test]
name = "test"
base_url = "%s/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`, s.URL())
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600))
	return home
}

// codex runs the codex that the environment names.
func codex(t *testing.T, s *Server, args ...string) *exec.Cmd {
	t.Helper()
	program := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if program == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX names no codex")
	}
	cmd := exec.CommandContext(bounded(t), program, args...)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+codexHome(t, s))
	cmd.Dir = t.TempDir()
	return cmd
}

// codex reacts to each script as its test expects.
func TestCodexUnderstandsTheScripts(t *testing.T) {
	for name, c := range map[string]struct {
		prompt, want string
		fails        bool
	}{
		"text":       {"[[text one ]] [[text two]]", `"text":"one two"`, false},
		"lines":      {"[[text one\ntwo]]", `"text":"one\ntwo"`, false},
		"split":      {"[[split héllo ☃]]", `"text":"héllo ☃"`, false},
		"reasoning":  {"[[reasoning why]] [[text a]]", `"type":"reasoning","text":"why"`, false},
		"usage":      {"[[text a]] [[usage 7 1 3 2]]", `"input_tokens":7,"cached_input_tokens":1`, false},
		"huge":       {"[[huge 5000000]]", `xxxxxxxx"`, false},
		"bad call":   {"[[call nonesuch]]", `hello from the model server`, false},
		"error 400":  {"[[error 400]]", `scripted error 400`, true},
		"error 401":  {"[[error 401]]", `401`, true},
		"error 429":  {"[[error 429 retry-after=1]]", `429`, true},
		"error 500":  {"[[error 500]]", `turn.failed`, true},
		"error 503":  {"[[error 503]]", `503`, true},
		"failed":     {"[[failed server_error went wrong]]", `went wrong`, true},
		"incomplete": {"[[text a]] [[incomplete]]", `max_output_tokens`, true},
		"garbage":    {"[[garbage]]", `turn.failed`, true},
		"badjson":    {"[[text a]] [[badjson]]", `"text":"a"`, false}, // codex skips the event
		"drop":       {"[[text a]] [[drop]]", `stream disconnected`, true},
		"end":        {"[[text a]] [[end]]", `stream closed before response.completed`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, "gpt-5.5")
			out, err := codex(t, s, "exec", "--skip-git-repo-check", "--json", c.prompt).Output()
			assert.Equal(t, c.fails, err != nil, "%v\n%.2000s", err, out)
			assert.Contains(t, string(out), c.want)
			assert.NotEmpty(t, s.Turns())
		})
	}
}

// rpc is codex app-server on its standard input and output.
type rpc struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	id    int
	early []message // notices that came before the answer to a call
}

type message struct {
	ID     int
	Method string
	Error  json.RawMessage
	Result struct{ Thread, Turn struct{ ID string } }
	Params struct {
		Delta string
		Turn  struct{ Status string }
	}
}

func (c *rpc) send(method, params string) int {
	c.id++
	_, err := fmt.Fprintf(c.in, `{"id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params)
	require.NoError(c.t, err)
	return c.id
}

// until reads up to the message that is wanted.
func (c *rpc) until(wanted func(message) bool) message {
	for {
		line, err := c.out.ReadBytes('\n')
		require.NoError(c.t, err)
		var m message
		if json.Unmarshal(line, &m) == nil && wanted(m) {
			return m
		}
	}
}

func (c *rpc) call(method, params string) message {
	id := c.send(method, params)
	m := c.until(func(m message) bool {
		answer := m.ID == id && m.Method == ""
		if !answer {
			c.early = append(c.early, m)
		}
		return answer
	})
	require.Empty(c.t, string(m.Error))
	return m
}

func (c *rpc) notice(method string) message {
	for len(c.early) > 0 {
		m := c.early[0]
		if c.early = c.early[1:]; m.Method == method {
			return m
		}
	}
	return c.until(func(m message) bool { return m.Method == method })
}

func appServer(t *testing.T, s *Server) (c *rpc, thread string) {
	t.Helper()
	cmd := codex(t, s, "app-server")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		assert.NoError(t, cmd.Wait())
	})
	c = &rpc{t: t, in: in, out: bufio.NewReader(out)}
	c.call("initialize", `{"clientInfo":{"name":"test","version":"1"},"capabilities":{"experimentalApi":true}}`)
	_, err = io.WriteString(in, `{"method":"initialized"}`+"\n")
	require.NoError(t, err)
	return c, c.call("thread/start", `{"ephemeral":true}`).Result.Thread.ID
}

func TestCodexStreamsBeforeTheModelHasFinished(t *testing.T) {
	s := Start(t, "gpt-5.5")
	require.NoError(t, s.Script("text first", "gate more", "text rest"))
	c, thread := appServer(t, s)
	c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"hi"}]}`, thread))
	assert.Equal(t, "first", c.notice("item/agentMessage/delta").Params.Delta)
	_, err := s.Wait(bounded(t), AtGate("more", 1))
	require.NoError(t, err)
	s.Release("more")
	assert.Equal(t, "rest", c.notice("item/agentMessage/delta").Params.Delta)
	assert.Equal(t, "completed", c.notice("turn/completed").Params.Turn.Status)
}

func TestCodexCutsAnInterruptedTurn(t *testing.T) {
	for _, steps := range [][]string{{"silence"}, {"hang"}, {"text first", "silence"}} {
		step := strings.Join(steps, ", ")
		t.Run(step, func(t *testing.T) {
			s := Start(t, "gpt-5.5")
			require.NoError(t, s.Script(steps...))
			c, thread := appServer(t, s)
			turn := c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"hi"}]}`,
				thread)).Result.Turn.ID
			_, err := s.Wait(bounded(t), AtLeast(1))
			require.NoError(t, err)
			if len(steps) > 1 {
				c.notice("item/agentMessage/delta")
			}
			c.send("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, thread, turn))
			assert.Equal(t, "interrupted", c.notice("turn/completed").Params.Turn.Status)
			_, err = s.Wait(bounded(t), CutAtLeast(1))
			assert.NoError(t, err)
		})
	}
}
