package responses_test

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
	"codex-proxy/proxy/api/apitest"
)

// A background response has a place of its key until it has ended, also while it waits, and frees it with its end.
func TestBackgroundCountsForItsKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann concurrent=2 requests-per-minute=4", "bob")
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "x")}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys, o.Max = keys, 1 })
	ann := []string{"Authorization", "Bearer " + secrets[0]}
	running, _, body := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`), ann...))
	queued := r.Whole(t, apitest.Asked(inBackground, `"q"`), ann...).ID
	for _, extra := range []string{inBackground, inBackground + apitest.Streaming, ""} {
		resp := r.Responding(t, apitest.Asked(extra, `"q"`), ann...)
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, "concurrency_exceeded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	bob := r.Whole(t, apitest.Asked(inBackground, `"q"`), "Authorization", "Bearer "+secrets[1]).ID
	resp := r.Do(t, http.MethodPost, "/v1/responses/"+queued+"/cancel", "", ann...)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	third := r.Whole(t, apitest.Asked(inBackground, `"q"`), ann...).ID
	close(gate)
	assert.Contains(t, all(t, body), "event: response.completed\n")
	fourth := r.Responding(t, apitest.Asked("", `"q"`), ann...)
	assert.Equal(t, http.StatusOK, fourth.StatusCode, "a place is free with the end of the stream")
	resp = r.Responding(t, apitest.Asked(inBackground, `"q"`), ann...)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	for id, header := range map[string][]string{running: ann, third: ann, bob: {"Authorization", "Bearer " + secrets[1]}} {
		apitest.Await(t, apitest.Tick(t), func() bool {
			return apitest.Read[apitest.Seen](t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+id, "", header...))).Status == "completed"
		})
	}
}

// A conversation belongs to its background response until that has ended, and has its input and output then.
func TestBackgroundInAConversation(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "a1")}, apitest.Keeping(t), func(o *apitest.Options) { o.Max = 1 })
	path, id := r.Talk(t, `{"items":[{"role":"user","content":"q0"},{"role":"assistant","content":"a0"}]}`)
	in := `"conversation":"` + id + `",`
	first, created, body := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming+in, `"q1"`)))
	for _, extra := range []string{in, inBackground + in, inBackground + apitest.Streaming + in} {
		resp := r.Responding(t, apitest.Asked(extra, `"q"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "conversation_locked", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	close(gate)
	list := apitest.Events(t, created+all(t, body))
	assert.Equal(t, id, list[len(list)-1].Response.Conversation.ID)
	assert.Equal(t, []string{"q0", "a0", "q1", "a1"}, r.Words(t, path))
	second := r.Whole(t, apitest.Asked(inBackground+in, `"q2"`))
	assert.Equal(t, id, second.Conversation.ID)
	r.Status(t, second.ID, "completed")
	assert.Equal(t, []string{"q0", "a0", "q1", "a1", "q2", "a1"}, r.Words(t, path))

	// Those that are cancelled, before their turn or amid it, and those that never begin, leave it as it was.
	for _, model := range []string{"demo", "none"} {
		resp := r.Responding(t, strings.Replace(apitest.Asked(inBackground+in, `"q3"`), "demo", model, 1))
		if model == "none" {
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			continue
		}
		third := apitest.Read[apitest.Seen](t, apitest.Text(t, resp)).ID
		r.Do(t, http.MethodPost, "/v1/responses/"+third+"/cancel", "")
		r.Status(t, third, "cancelled", "completed")
	}
	assert.Equal(t, "completed", r.Whole(t, apitest.Asked(in, `"q4"`)).Status, "it is free")
	assert.Equal(t, first, r.Status(t, first, "completed").ID)
}

// Many find a response without a process at the same time; it ends once, and all have the same bytes.
func TestManyFindAnAbandonedResponse(t *testing.T) {
	gate := make(chan struct{})
	path := filepath.Join(t.TempDir(), "responses.db")
	dead := apitest.NewStore(path, 1<<24)
	require.NoError(t, dead.Open(t.Context()))
	old := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")},
		func(o *apitest.Options) { o.Responses = dead })
	var next []*apitest.Rig
	for range 2 {
		next = append(next, apitest.NewRig(t, &appservertest.Server{}, apitest.KeepingAt(t, path, 1<<24)))
	}
	id, before, body := streamOf(t, old.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	require.NoError(t, dead.Close())
	const n = 16
	var got [n]string
	var followers sync.WaitGroup
	for i := range n {
		resp := next[i%2].Resumed(t, id, -1)
		followers.Go(func() { got[i] = all(t, resp.Body) })
	}
	followers.Wait()
	for i := range n {
		assert.Equal(t, got[0], got[i])
	}
	assert.True(t, strings.HasPrefix(got[0], before))
	assert.Equal(t, 1, strings.Count(got[0], "event: response.failed\n"))
	assert.Equal(t, 1, strings.Count(next[0].Log.String()+next[1].Log.String(),
		"background responses of a process that has ended have failed"))
	resp := next[0].Do(t, http.MethodGet, "/v1/responses/"+id+"/input_items", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message, "its input")
	old.Abort()
	close(gate)
}

// Files, goroutines and entries go with their responses.
func TestBackgroundLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.KeepingAt(t, filepath.Join(dir, "r.db"), 1<<24),
		func(o *apitest.Options) { o.Max = 2 })
	var ids []string
	for range 8 {
		resp := r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
		id, _, _ := streamOf(t, resp)
		require.NoError(t, resp.Body.Close())
		ids = append(ids, id)
	}
	resp := r.Do(t, http.MethodGet, "/v1/responses/"+ids[7]+"/input_items", "")
	assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message, "it has not ended")
	resp = r.Responding(t, apitest.Asked(`"previous_response_id":"`+ids[7]+`",`, `"q"`))
	assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message, "it has not ended")
	for _, id := range ids[:4] { // two that run, and two that wait
		require.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
		assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
	}
	close(gate)
	for _, id := range ids[4:] {
		r.Status(t, id, "completed")
		require.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, "/v1/responses/"+id, "").StatusCode)
	}
	apitest.Await(t, apitest.Tick(t), func() bool {
		files, err := os.ReadDir(filepath.Join(dir, "events"))
		require.NoError(t, err)
		return len(files) == 1 && r.Connections.Unanswered() == 0
	})
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")), "codex_background_responses_inflight 0\n")
	assert.Zero(t, r.Pool.Inflight()+r.Pool.Waiting(), fmt.Sprint(ids))
}

// The stream of a response without background cannot be resumed, whether it runs or has ended.
func TestForegroundIsNotResumed(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.Keeping(t))
	id, _, body := streamOf(t, r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`)))
	for range 2 {
		resp := r.Do(t, http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", "")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "stream", *e.Param)
		assert.Contains(t, e.Message, "created with background and stream")
		if gate != nil {
			close(gate)
			gate = nil
			all(t, body)
		}
	}
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")), "codex_streams_resumed_total 0\n")
}

// request_timeout bounds the turn of a background response, and not its waiting.
func TestBackgroundWaitsWithoutRequestTimeout(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.Keeping(t), func(o *apitest.Options) {
		o.Max, o.RequestTimeout = 1, time.Second
	})
	first := r.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	r.Status(t, first, "in_progress")
	second := r.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	got := r.Status(t, first, "failed")
	assert.Contains(t, got.Error.Message, "the answer was not finished within 1s")
	close(gate)
	r.Status(t, second, "completed")
}

// A response that response_storage has no room for fails with that reason: its events, or itself.
func TestBackgroundBeyondTheStorage(t *testing.T) {
	large := strings.Repeat("large ", 20<<10)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		m := turn.Begin("")
		m.Delta("first")
		m.Delta(large)
		m.End()
		return nil
	}}, apitest.KeepingAt(t, filepath.Join(t.TempDir(), "r.db"), 100<<10))
	list := apitest.Events(t, apitest.Text(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))))
	last := list[len(list)-1]
	assert.Equal(t, "response.failed", last.Type)
	assert.Contains(t, last.Response.Error.Message, "the events of all responses in flight")
	assert.Equal(t, *last.Response, r.Status(t, last.Response.ID, "failed"))
	assert.Equal(t, list, apitest.Events(t, all(t, r.Resumed(t, last.Response.ID, -1).Body)))

	got := r.Status(t, r.Whole(t, apitest.Asked(inBackground, `"q"`)).ID, "failed", "completed")
	require.NotNil(t, got.Error)
	assert.Contains(t, got.Error.Message, "too large to be kept (response_storage)")
	resp := r.Responding(t, apitest.Asked(inBackground, `"`+large+`"`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}
