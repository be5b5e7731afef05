package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// A background response has a place of its key until it has ended, also while it waits, and frees it with its end.
func TestBackgroundCountsForItsKey(t *testing.T) {
	keys, secrets := withKeys(t, "ann concurrent=2 requests-per-minute=4", "bob")
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "x")}, keeping(t), func(o *options) { o.Keys, o.max = keys, 1 })
	ann := []string{"Authorization", "Bearer " + secrets[0]}
	running, _, body := streamOf(t, r.responding(t, asked(inBackground+streaming, `"q"`), ann...))
	queued := r.whole(t, asked(inBackground, `"q"`), ann...).ID
	for _, extra := range []string{inBackground, inBackground + streaming, ""} {
		resp := r.responding(t, asked(extra, `"q"`), ann...)
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, "concurrency_exceeded", failure(t, text(t, resp)).Error.Code)
	}
	bob := r.whole(t, asked(inBackground, `"q"`), "Authorization", "Bearer "+secrets[1]).ID
	resp := r.do(t, http.MethodPost, "/v1/responses/"+queued+"/cancel", "", ann...)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	third := r.whole(t, asked(inBackground, `"q"`), ann...).ID
	close(gate)
	assert.Contains(t, all(t, body), "event: response.completed\n")
	fourth := r.responding(t, asked("", `"q"`), ann...)
	assert.Equal(t, http.StatusOK, fourth.StatusCode, "a place is free with the end of the stream")
	resp = r.responding(t, asked(inBackground, `"q"`), ann...)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	for id, header := range map[string][]string{running: ann, third: ann, bob: {"Authorization", "Bearer " + secrets[1]}} {
		await(t, tick(t), func() bool {
			return read[seen](t, text(t, r.do(t, http.MethodGet, "/v1/responses/"+id, "", header...))).Status == "completed"
		})
	}
}

// A conversation belongs to its background response until that has ended, and has its input and output then.
func TestBackgroundInAConversation(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "a1")}, keeping(t), func(o *options) { o.max = 1 })
	path, id := r.talk(t, `{"items":[{"role":"user","content":"q0"},{"role":"assistant","content":"a0"}]}`)
	in := `"conversation":"` + id + `",`
	first, created, body := streamOf(t, r.responding(t, asked(inBackground+streaming+in, `"q1"`)))
	for _, extra := range []string{in, inBackground + in, inBackground + streaming + in} {
		resp := r.responding(t, asked(extra, `"q"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "conversation_locked", failure(t, text(t, resp)).Error.Code)
	}
	close(gate)
	list := events(t, created+all(t, body))
	assert.Equal(t, id, list[len(list)-1].Response.Conversation.ID)
	assert.Equal(t, []string{"q0", "a0", "q1", "a1"}, r.words(t, path))
	second := r.whole(t, asked(inBackground+in, `"q2"`))
	assert.Equal(t, id, second.Conversation.ID)
	r.status(t, second.ID, "completed")
	assert.Equal(t, []string{"q0", "a0", "q1", "a1", "q2", "a1"}, r.words(t, path))

	// Those that are cancelled, before their turn or amid it, and those that never begin, leave it as it was.
	for _, model := range []string{"demo", "none"} {
		resp := r.responding(t, strings.Replace(asked(inBackground+in, `"q3"`), "demo", model, 1))
		if model == "none" {
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			continue
		}
		third := read[seen](t, text(t, resp)).ID
		r.do(t, http.MethodPost, "/v1/responses/"+third+"/cancel", "")
		r.status(t, third, "cancelled", "completed")
	}
	assert.Equal(t, "completed", r.whole(t, asked(in, `"q4"`)).Status, "it is free")
	assert.Equal(t, first, r.status(t, first, "completed").ID)
}

// Many find a response without a process at the same time; it ends once, and all have the same bytes.
func TestManyFindAnAbandonedResponse(t *testing.T) {
	gate := make(chan struct{})
	path := filepath.Join(t.TempDir(), "responses.db")
	dead := newStore(path, 1<<24)
	require.NoError(t, dead.Open(t.Context()))
	old := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")},
		func(o *options) { o.Responses = dead })
	var next []*rig
	for range 2 {
		next = append(next, newRig(t, &appservertest.Server{}, keepingAt(t, path, 1<<24)))
	}
	id, before, body := streamOf(t, old.responding(t, asked(inBackground+streaming, `"q"`)))
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	require.NoError(t, dead.Close())
	const n = 16
	var got [n]string
	var followers sync.WaitGroup
	for i := range n {
		resp := next[i%2].resumed(t, id, -1)
		followers.Go(func() { got[i] = all(t, resp.Body) })
	}
	followers.Wait()
	for i := range n {
		assert.Equal(t, got[0], got[i])
	}
	assert.True(t, strings.HasPrefix(got[0], before))
	assert.Equal(t, 1, strings.Count(got[0], "event: response.failed\n"))
	assert.Equal(t, 1, strings.Count(next[0].log.String()+next[1].log.String(),
		"background responses of a process that has ended have failed"))
	resp := next[0].do(t, http.MethodGet, "/v1/responses/"+id+"/input_items", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	assert.Contains(t, failure(t, text(t, resp)).Error.Message, "its input")
	old.Abort()
	close(gate)
}

// Files, goroutines and entries go with their responses.
func TestBackgroundLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")}, keepingAt(t, filepath.Join(dir, "r.db"), 1<<24),
		func(o *options) { o.max = 2 })
	var ids []string
	for range 8 {
		resp := r.responding(t, asked(inBackground+streaming, `"q"`))
		id, _, _ := streamOf(t, resp)
		require.NoError(t, resp.Body.Close())
		ids = append(ids, id)
	}
	resp := r.do(t, http.MethodGet, "/v1/responses/"+ids[7]+"/input_items", "")
	assert.Contains(t, failure(t, text(t, resp)).Error.Message, "it has not ended")
	resp = r.responding(t, asked(`"previous_response_id":"`+ids[7]+`",`, `"q"`))
	assert.Contains(t, failure(t, text(t, resp)).Error.Message, "it has not ended")
	for _, id := range ids[:4] { // two that run, and two that wait
		require.Equal(t, http.StatusOK, r.do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
		assert.Equal(t, http.StatusNotFound, r.do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
	}
	close(gate)
	for _, id := range ids[4:] {
		r.status(t, id, "completed")
		require.Equal(t, http.StatusOK, r.do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
	}
	await(t, tick(t), func() bool {
		files, err := os.ReadDir(filepath.Join(dir, "events"))
		require.NoError(t, err)
		return len(files) == 1 && r.Connections.Unanswered() == 0
	})
	assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "")), "codex_background_responses_inflight 0\n")
	assert.Zero(t, r.pool.Inflight()+r.pool.Waiting(), fmt.Sprint(ids))
}

// The stream of a response without background cannot be resumed, whether it runs or has ended.
func TestForegroundIsNotResumed(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")}, keeping(t))
	id, _, body := streamOf(t, r.responding(t, asked(streaming, `"q"`)))
	for range 2 {
		resp := r.do(t, http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", "")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, "stream", *e.Param)
		assert.Contains(t, e.Message, "created with background and stream")
		if gate != nil {
			close(gate)
			gate = nil
			all(t, body)
		}
	}
	assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "")), "codex_streams_resumed_total 0\n")
}

// request_timeout bounds the turn of a background response, and not its waiting.
func TestBackgroundWaitsWithoutRequestTimeout(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")}, keeping(t), func(o *options) {
		o.max, o.RequestTimeout = 1, time.Second
	})
	first := r.whole(t, asked(inBackground, `"q"`)).ID
	r.status(t, first, "in_progress")
	second := r.whole(t, asked(inBackground, `"q"`)).ID
	got := r.status(t, first, "failed")
	assert.Contains(t, got.Error.Message, "the answer was not finished within 1s")
	close(gate)
	r.status(t, second, "completed")
}

// A response that response_storage has no room for fails with that reason: its events, or itself.
func TestBackgroundBeyondTheStorage(t *testing.T) {
	large := strings.Repeat("large ", 20<<10)
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		m := turn.Begin("")
		m.Delta("first")
		m.Delta(large)
		m.End()
		return nil
	}}, keepingAt(t, filepath.Join(t.TempDir(), "r.db"), 100<<10))
	list := events(t, text(t, r.responding(t, asked(inBackground+streaming, `"q"`))))
	last := list[len(list)-1]
	assert.Equal(t, "response.failed", last.Type)
	assert.Contains(t, last.Response.Error.Message, "the events of all responses in flight")
	assert.Equal(t, *last.Response, r.status(t, last.Response.ID, "failed"))
	assert.Equal(t, list, events(t, all(t, r.resumed(t, last.Response.ID, -1).Body)))

	got := r.status(t, r.whole(t, asked(inBackground, `"q"`)).ID, "failed", "completed")
	require.NotNil(t, got.Error)
	assert.Contains(t, got.Error.Message, "too large to be kept (response_storage)")
	resp := r.responding(t, asked(inBackground, `"`+large+`"`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}
