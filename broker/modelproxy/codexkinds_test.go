package modelproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
)

// Each codex names the kinds of its requests, also of the ones that nobody asks for.
func TestKindsOfCodex(t *testing.T) {
	codexes.Each(t, 0, func(t *testing.T, _ int, program string) {
		models := modelserver.Start(t, "gpt-5.5")
		l, err := ForWorker(Endpoint{BaseURL: models.URL() + "/v1"}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		home := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, `model = "gpt-5.5"
model_provider = "test"
[model_providers.test]
name = "test"
base_url = %q
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, start(t, l)), 0o600))
		c := appServer(t, program, home)
		c.call("initialize", `{"clientInfo":{"name":"test","version":"1"}}`, "")
		id := c.call("thread/start", fmt.Sprintf(`{"cwd":%q}`, t.TempDir()), "")
		c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":"hello"}]}`, id), "turn/completed")
		c.call("thread/compact/start", fmt.Sprintf(`{"threadId":%q}`, id), "turn/completed")
		c.call("review/start", fmt.Sprintf(`{"threadId":%q,"target":{"type":"custom","instructions":"all"},"delivery":"inline"}`, id),
			"turn/completed")
		counted := uint64(0)
		for kind, used := range l.State().Tokens {
			if !uncounted[kind] {
				counted += used.Input + used.Output
			}
		}
		assert.Equal(t, counted, c.used[id], "the tokens that codex reports of the thread")
		requests := l.State().Requests
		delete(requests, kindModels) // as many as it likes
		assert.Equal(t, map[string]uint64{kindTurn: 1, kindCompaction: 1, kindReview: 1}, requests)
	})
}

// client is a client of codex app-server, on its standard input and output.
type client struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Reader
	id  int
	// used are the tokens of each thread, as codex reports them.
	used map[string]uint64
}

func appServer(t *testing.T, program, home string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &client{t: t, in: json.NewEncoder(in), out: bufio.NewReader(out), used: map[string]uint64{}}
}

// call sends a request, and reads up to its answer and the notification. It returns the thread of the answer.
func (c *client) call(method, params, until string) (thread string) {
	c.t.Helper()
	c.id++
	require.NoError(c.t, c.in.Encode(map[string]any{"id": c.id, "method": method, "params": json.RawMessage(params)}))
	for answered, notified := false, until == ""; !answered || !notified; {
		line, err := c.out.ReadBytes('\n')
		require.NoError(c.t, err)
		var m struct {
			ID     int
			Method string
			Error  json.RawMessage
			Result struct{ Thread struct{ ID string } }
			Params struct {
				ThreadID   string
				TokenUsage struct{ Total struct{ TotalTokens uint64 } }
			}
		}
		if json.Unmarshal(line, &m) != nil { // the id of a thing of codex's own
			continue
		}
		if m.Method == "thread/tokenUsage/updated" {
			c.used[m.Params.ThreadID] = m.Params.TokenUsage.Total.TotalTokens
		}
		notified = notified || m.Method == until
		if m.ID == c.id && m.Method == "" {
			require.Empty(c.t, string(m.Error), method)
			answered, thread = true, m.Result.Thread.ID
		}
	}
	return thread
}
