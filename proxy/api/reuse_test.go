package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// talker answers "a1" to "q1", and notes on which thread and with what.
type talker struct {
	mu      sync.Mutex
	threads []string
	items   []int
}

func (k *talker) answer(_ context.Context, turn *appservertest.Turn) error {
	k.mu.Lock()
	k.threads = append(k.threads, turn.ThreadID)
	k.items = append(k.items, len(turn.Request.Items))
	k.mu.Unlock()
	turn.Text(strings.Replace(turn.Request.Prompt(), "q", "a", 1))
	turn.EndResponse(appservertest.Usage{Input: 10, Output: 1})
	return nil
}

// conversation is a chat request of so many questions, with the answers in between.
func conversation(extra string, name string, questions int) string {
	var messages []string
	for i := range questions {
		if i > 0 {
			messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":"a%s%d"}`, name, i))
		}
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"q%s%d"}`, name, i+1))
	}
	return `{` + extra + `"model":"demo","messages":[` + strings.Join(messages, ",") + `]}`
}

func (r *rig) ask(t *testing.T, body string, header ...string) {
	t.Helper()
	resp := r.chatting(t, body, header...)
	answer := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	assert.NotContains(t, answer, `"error"`)
	if !strings.Contains(body, `"stream":true`) {
		var whole struct{ Usage struct{ TotalTokens int } }
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(answer, "total_tokens", "TotalTokens")), &whole))
		assert.Equal(t, 11, whole.Usage.TotalTokens, "the usage of this turn alone")
	}
}

func withThreads(n int) func(*options) { return func(o *options) { o.ThreadCache = n } }

func TestAContinuedConversationKeepsItsThread(t *testing.T) {
	k := &talker{}
	r := newRig(t, &appservertest.Server{Handler: k.answer}, withThreads(4))
	for n := 1; n <= 3; n++ {
		r.ask(t, conversation("", "", n))
	}
	r.ask(t, conversation(streaming, "", 4))
	r.ask(t, conversation("", "", 5))
	assert.Len(t, slices.Compact(slices.Clone(k.threads)), 1, "one thread for all: %v", k.threads)
	// The fake holds what was injected, and an answer is not injected.
	assert.Equal(t, []int{1, 2, 3, 4, 5}, k.items)
	assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "")),
		"codex_thread_reuse_total{outcome=\"hit\"} 4\n")
}

func TestWhatDiffersHasAThreadOfItsOwn(t *testing.T) {
	k := &talker{}
	r := newRig(t, &appservertest.Server{Handler: k.answer}, withThreads(4))
	r.ask(t, conversation("", "", 1))
	for name, body := range map[string]string{
		"effort":        conversation(`"reasoning_effort":"high",`, "", 2),
		"instructions":  strings.Replace(conversation("", "", 2), `[{`, `[{"role":"system","content":"be brief"},{`, 1),
		"an old answer": strings.Replace(conversation("", "", 2), `"a1"`, `"a1 "`, 1),
		"a question":    strings.Replace(conversation("", "", 2), `"q1"`, `"q0"`, 1),
		"nothing new":   conversation("", "", 1),
	} {
		before := len(k.threads)
		r.ask(t, body)
		assert.NotContains(t, k.threads[:before], k.threads[before], name)
	}
}

func TestThreadsHaveALimit(t *testing.T) {
	for _, tc := range []struct {
		limit int
		kept  bool
	}{{0, false}, {1, false}, {2, true}} {
		k := &talker{}
		worker := &appservertest.Server{Handler: k.answer}
		r := newRig(t, worker, withThreads(tc.limit))
		r.ask(t, conversation("", "x", 1))
		r.ask(t, conversation("", "y", 1))
		r.ask(t, conversation("", "x", 2))
		assert.Equal(t, tc.kept, k.threads[2] == k.threads[0], "limit %d", tc.limit)
	}
}

// One thread takes one turn at a time; who comes second starts anew.
func TestAThreadIsContinuedOnce(t *testing.T) {
	k := &talker{}
	gate, entered := make(chan struct{}), make(chan struct{}, 2)
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if len(turn.Request.Items) > 1 {
			entered <- struct{}{}
			<-gate
		}
		return k.answer(ctx, turn)
	}}, withThreads(4))
	r.ask(t, conversation("", "", 1))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { r.ask(t, conversation("", "", 2)) })
	}
	received(t, entered)
	received(t, entered)
	close(gate)
	both.Wait()
	assert.Contains(t, k.threads[1:], k.threads[0])
	assert.NotEqual(t, k.threads[1], k.threads[2])
}

// A thread that the worker does not know any more is no reason to fail.
func TestALostThreadStartsAnew(t *testing.T) {
	k := &talker{}
	refuse := true
	worker := &appservertest.Server{Handler: k.answer}
	worker.Faults = map[string]appservertest.Fault{"turn/start": func(_ context.Context, p *appservertest.Peer,
		id json.RawMessage) bool {
		if len(k.threads) == 1 && refuse {
			refuse = false
			p.Refuse(id, -32600, "thread not found")
			return true
		}
		return false
	}}
	r := newRig(t, worker, withThreads(4))
	r.ask(t, conversation("", "", 1))
	r.ask(t, conversation("", "", 2))
	assert.False(t, refuse)
	assert.NotEqual(t, k.threads[0], k.threads[1])
	assert.Equal(t, 3, k.items[1], "the whole history")
}
