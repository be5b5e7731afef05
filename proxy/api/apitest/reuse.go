package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// Talker answers "a1" to "q1", and notes on which thread and with what.
type Talker struct {
	mu      sync.Mutex
	Threads []string
	Items   []int
}

// Answer is the handler of its turns.
func (k *Talker) Answer(_ context.Context, turn *appservertest.Turn) error {
	k.mu.Lock()
	k.Threads = append(k.Threads, turn.ThreadID)
	k.Items = append(k.Items, len(turn.Request.Items))
	k.mu.Unlock()
	turn.Text(strings.Replace(turn.Request.Prompt(), "q", "a", 1))
	turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
	return nil
}

// Conversation is a chat request of so many questions, with the answers in between.
func Conversation(extra string, name string, questions int) string {
	var messages []string
	for i := range questions {
		if i > 0 {
			messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":"a%s%d"}`, name, i))
		}
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"q%s%d"}`, name, i+1))
	}
	return `{` + extra + `"model":"demo","messages":[` + strings.Join(messages, ",") + `]}`
}

// Ask posts a chat, which must be answered.
func (r *Rig) Ask(t testing.TB, body string, header ...string) {
	t.Helper()
	resp := r.Chatting(t, body, header...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.NotContains(t, answer, `"error"`)
	if !strings.Contains(body, `"stream":true`) {
		var whole struct{ Usage struct{ TotalTokens int } }
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(answer, "total_tokens", "TotalTokens")), &whole))
		assert.Equal(t, 11, whole.Usage.TotalTokens, "the usage of this turn alone")
	}
}

// WithThreads keeps n threads of answered requests.
func WithThreads(n int) func(*Options) { return func(o *Options) { o.ThreadCache = n } }
