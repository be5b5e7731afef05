package turn_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func TestAContinuedConversationKeepsItsThread(t *testing.T) {
	k := &apitest.Talker{}
	r := apitest.NewRig(t, &appservertest.Server{Handler: k.Answer}, apitest.WithThreads(4))
	for n := 1; n <= 3; n++ {
		r.Ask(t, apitest.Conversation("", "", n))
	}
	r.Ask(t, apitest.Conversation(apitest.Streaming, "", 4))
	r.Ask(t, apitest.Conversation("", "", 5))
	assert.Len(t, slices.Compact(slices.Clone(k.Threads)), 1, "one thread for all: %v", k.Threads)
	// The fake holds what was injected, and an answer is not injected.
	assert.Equal(t, []int{1, 2, 3, 4, 5}, k.Items)
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")),
		"codex_thread_reuse_total{outcome=\"hit\"} 4\n")
}

func TestWhatDiffersHasAThreadOfItsOwn(t *testing.T) {
	k := &apitest.Talker{}
	r := apitest.NewRig(t, &appservertest.Server{Handler: k.Answer}, apitest.WithThreads(4))
	r.Ask(t, apitest.Conversation("", "", 1))
	for name, body := range map[string]string{
		"effort":        apitest.Conversation(`"reasoning_effort":"high",`, "", 2),
		"instructions":  strings.Replace(apitest.Conversation("", "", 2), `[{`, `[{"role":"system","content":"be brief"},{`, 1),
		"an old answer": strings.Replace(apitest.Conversation("", "", 2), `"a1"`, `"a1 "`, 1),
		"a question":    strings.Replace(apitest.Conversation("", "", 2), `"q1"`, `"q0"`, 1),
		"nothing new":   apitest.Conversation("", "", 1),
	} {
		before := len(k.Threads)
		r.Ask(t, body)
		assert.NotContains(t, k.Threads[:before], k.Threads[before], name)
	}
}

func TestThreadsHaveALimit(t *testing.T) {
	for _, tc := range []struct {
		limit int
		kept  bool
	}{{0, false}, {1, false}, {2, true}} {
		k := &apitest.Talker{}
		worker := &appservertest.Server{Handler: k.Answer}
		r := apitest.NewRig(t, worker, apitest.WithThreads(tc.limit))
		r.Ask(t, apitest.Conversation("", "x", 1))
		r.Ask(t, apitest.Conversation("", "y", 1))
		r.Ask(t, apitest.Conversation("", "x", 2))
		assert.Equal(t, tc.kept, k.Threads[2] == k.Threads[0], "limit %d", tc.limit)
	}
}

// One thread takes one turn at a time; who comes second starts anew.
func TestAThreadIsContinuedOnce(t *testing.T) {
	k := &apitest.Talker{}
	gate, entered := make(chan struct{}), make(chan struct{}, 2)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if len(turn.Request.Items) > 1 {
			entered <- struct{}{}
			<-gate
		}
		return k.Answer(ctx, turn)
	}}, apitest.WithThreads(4))
	r.Ask(t, apitest.Conversation("", "", 1))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { r.Ask(t, apitest.Conversation("", "", 2)) })
	}
	apitest.Received(t, entered)
	apitest.Received(t, entered)
	close(gate)
	both.Wait()
	assert.Contains(t, k.Threads[1:], k.Threads[0])
	assert.NotEqual(t, k.Threads[1], k.Threads[2])
}

// A thread that the worker does not know any more is no reason to fail.
func TestALostThreadStartsAnew(t *testing.T) {
	k := &apitest.Talker{}
	refuse := true
	worker := &appservertest.Server{Handler: k.Answer}
	worker.Faults = map[string]appservertest.Fault{"turn/start": func(_ context.Context, p *appservertest.Peer,
		id json.RawMessage) bool {
		if len(k.Threads) == 1 && refuse {
			refuse = false
			p.Refuse(id, -32600, "thread not found")
			return true
		}
		return false
	}}
	r := apitest.NewRig(t, worker, apitest.WithThreads(4))
	r.Ask(t, apitest.Conversation("", "", 1))
	r.Ask(t, apitest.Conversation("", "", 2))
	assert.False(t, refuse)
	assert.NotEqual(t, k.Threads[0], k.Threads[1])
	assert.Equal(t, 3, k.Items[1], "the whole history")
}
