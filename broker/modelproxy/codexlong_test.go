package modelproxy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bench/line"
	"codex-proxy/test/codexes"
)

// Of the requests of each codex in a long conversation only what is new goes up, also within a turn: the items of an
// answer, which codex sends in a form of its own, are known again.
func TestLongConversationOfCodex(t *testing.T) {
	codexes.Each(t, 0, func(t *testing.T, _ int, program string) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var g errgroup.Group
		t.Cleanup(func() { cancel(); assert.NoError(t, g.Wait()) })
		authority, err := line.NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
		require.NoError(t, err)
		var mu sync.Mutex
		var seen []line.Request
		endpoint, err := line.Start(ctx, &g, authority, line.Options{
			Asked: func(r line.Request) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r)
			},
			First: func(n int64) []map[string]any {
				all := []map[string]any{{"id": fmt.Sprint("rs_", n), "type": "reasoning", "summary": []any{
					map[string]any{"type": "summary_text", "text": "Thinking."}}, "encrypted_content": fmt.Sprint("secret ", n)}}
				if n == 2 {
					all = append(all, map[string]any{"id": "fc_2", "type": "function_call", "name": "no_such_tool", "arguments": "{}",
						"call_id": "call_2", "status": "completed"})
				}
				return all
			},
		})
		require.NoError(t, err)
		l, err := ForWorker(Endpoint{BaseURL: "https://" + endpoint.Address + "/v1", CAFile: authority.File}, slog.New(slog.DiscardHandler))
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
		say := func(text string) {
			c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":%q}]}`, id, text), "turn/completed")
		}
		say(strings.Repeat("word ", 20_000))
		require.Eventually(t, func() bool { return l.State().Line.Sockets == 1 }, time.Minute, time.Millisecond)
		say("second")
		say("third")
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, seen, 4, "one more for the call")
		assert.False(t, seen[0].Socket)
		assert.True(t, seen[1].Socket)
		assert.Empty(t, seen[1].Previous)
		assert.Equal(t, "resp_2", seen[2].Previous, "%s", seen[2].Input)
		assert.Equal(t, "resp_3", seen[3].Previous, "%s", seen[3].Input)
		for _, r := range seen[2:] {
			assert.NotEmpty(t, r.Metadata["x-codex-turn-metadata"])
		}
		assert.Equal(t, uint64(2), l.State().Line.Continued)
	})
}
