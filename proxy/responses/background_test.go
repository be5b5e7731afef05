package responses_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/stored"
)

const inBackground = `"background":true,`

// streamOf is the stream of a response from its beginning; its first event has the id.
func streamOf(t *testing.T, resp *http.Response) (id string, first string, rest *bufio.Reader) {
	t.Helper()
	rest = bufio.NewReader(resp.Body)
	first = event(t, rest)
	_, data, _ := strings.Cut(first, "\ndata: ")
	return apitest.Read[apitest.Seen](t, data).Response.ID, first, rest
}

// event reads one event.
func event(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var all strings.Builder
	for !strings.HasSuffix(all.String(), "\n\n") {
		line, err := from.ReadString('\n')
		require.NoError(t, err, all.String())
		all.WriteString(line)
	}
	return all.String()
}

func all(t *testing.T, from io.Reader) string {
	t.Helper()
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	return string(rest)
}

// A background response is answered at once, can be polled, and is a stored one in the end.
func TestBackground(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked(inBackground+`"instructions":"be brief","metadata":{"a":"b"},`, `"q"`))
	assert.Equal(t, "queued", first.Status)
	got := r.Status(t, first.ID, "in_progress")
	assert.Empty(t, got.Output)
	resp := r.Responding(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q"`))
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "it cannot be continued yet")
	close(gate)
	got = r.Status(t, first.ID, "completed")
	require.Len(t, got.Output, 2)
	assert.Equal(t, "answer to q", got.Output[1].Content[0].Text)
	assert.Equal(t, 13, got.Usage.Total)
	whole := apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID, ""))
	assert.Contains(t, whole, `"background":true`)
	assert.Contains(t, whole, `"metadata":{"a":"b"}`)
	second := r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q2"`))
	assert.Equal(t, "completed", second.Status)
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+second.ID+"/input_items", "")), `"text":"q"`)
	resp = r.Do(t, http.MethodGet, "/v1/responses/"+first.ID+"?stream=true", "")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "stream", *e.Param)
	assert.Contains(t, e.Message, "background and stream")
	resp = r.Do(t, http.MethodPost, "/v1/responses/"+first.ID+"/cancel", "")
	assert.Equal(t, "response_not_cancellable", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
}

// The stream of a background response goes on when its client has gone, and another one that comes back gets the rest,
// byte for byte, live and later.
func TestResume(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	id, created, body := streamOf(t, resp)
	assert.Contains(t, created, `"status":"queued"`)
	before := created
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	n := strings.Count(before, "\n\n")
	require.NoError(t, resp.Body.Close())

	live := r.Resumed(t, id, 1)
	rest := bufio.NewReader(live.Body)
	third := event(t, rest)
	assert.Contains(t, third, "event: response.in_progress\n")
	close(gate)
	whole := before[:strings.Index(before, third)] + third + all(t, rest)
	assert.True(t, strings.HasPrefix(whole, before))
	list := apitest.Events(t, whole)
	assert.Equal(t, "response.queued", list[1].Type)
	assert.Equal(t, "response.completed", list[len(list)-1].Type)
	assert.Equal(t, "firstlast", list[len(list)-1].Response.Output[0].Content[0].Text)
	assert.Equal(t, whole[len(before):], all(t, r.Resumed(t, id, n-1).Body))
	at := 0
	for i := range list {
		assert.Equal(t, whole[at:], all(t, r.Resumed(t, id, i-1).Body))
		at += strings.Index(whole[at:], "\n\n") + 2
	}
	assert.Empty(t, all(t, r.Resumed(t, id, len(list)-1).Body))
	assert.Equal(t, *list[len(list)-1].Response, r.Status(t, id, "completed"))

	for _, value := range []string{"-1", "x", "1.5"} {
		resp := r.Do(t, http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after="+value, "")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "starting_after", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	}
	resp = r.Do(t, http.MethodDelete, "/v1/responses/"+id, "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	resp = r.Do(t, http.MethodGet, "/v1/responses/"+id+"?stream=true", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// Two processes have the same state, as after a reload: each serves what the other one makes.
func TestBackgroundOfAnotherProcess(t *testing.T) {
	gate := make(chan struct{})
	path := filepath.Join(t.TempDir(), "responses.db")
	worker := apitest.Gated(gate, "first", "last")
	old := apitest.NewRig(t, &appservertest.Server{Handler: worker}, apitest.KeepingAt(t, path, 1<<24))
	next := apitest.NewRig(t, &appservertest.Server{Handler: worker}, apitest.KeepingAt(t, path, 1<<24))

	resp := old.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	id, first, body := streamOf(t, resp)
	follower := bufio.NewReader(next.Resumed(t, id, -1).Body)
	assert.Equal(t, first, event(t, follower))
	next.Status(t, id, "in_progress")
	cancelled := old.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	deletedResp := old.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	deleted, _, deletedBody := streamOf(t, deletedResp)
	for range 2 {
		resp = next.Do(t, http.MethodPost, "/v1/responses/"+cancelled+"/cancel", "")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, "cancelled", apitest.Read[apitest.Seen](t, apitest.Text(t, resp)).Status)
	}
	assert.Equal(t, "cancelled", old.Status(t, cancelled, "cancelled").Status)
	assert.Equal(t, http.StatusOK, next.Do(t, http.MethodDelete, "/v1/responses/"+deleted, "").StatusCode)
	assert.Contains(t, all(t, deletedBody), "event: error\n")
	for _, r := range []*apitest.Rig{old, next} {
		assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+deleted, "").StatusCode)
	}
	close(gate)
	whole := all(t, body)
	assert.Equal(t, whole, all(t, follower))
	assert.Contains(t, whole, "event: response.completed\n")
	assert.Equal(t, first+whole, all(t, next.Resumed(t, id, -1).Body))
	apitest.Await(t, apitest.Tick(t), func() bool { return old.Pool.Inflight() == 0 })
}

// The responses of a process that was killed have failed, with the reason, and so have their streams, for all who ask.
func TestBackgroundOfAKilledProcess(t *testing.T) {
	gate := make(chan struct{})
	path := filepath.Join(t.TempDir(), "responses.db")
	var dead *stored.File
	old := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, func(o *apitest.Options) {
		dead = apitest.NewStore(path, 1<<24)
		require.NoError(t, dead.Open(t.Context()))
		o.Responses = dead
	})
	next := apitest.NewRig(t, &appservertest.Server{}, apitest.KeepingAt(t, path, 1<<24))
	resp := old.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	id, before, body := streamOf(t, resp)
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	whole := old.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	follower := next.Resumed(t, id, 1)
	rest := bufio.NewReader(follower.Body)
	event(t, rest)
	old.Status(t, whole, "in_progress")
	require.NoError(t, dead.Close()) // to others its process has ended
	for _, id := range []string{id, whole} {
		got := next.Status(t, id, "failed")
		assert.Equal(t, "server_error", got.Error.Code)
		assert.Contains(t, got.Error.Message, "the service ended before the response was finished")
	}
	all1 := all(t, next.Resumed(t, id, -1).Body)
	assert.True(t, strings.HasPrefix(all1, before), "%s", all1)
	list := apitest.Events(t, all1)
	assert.Equal(t, strings.Count(before, "\n\n")+1, len(list))
	assert.Equal(t, "response.failed", list[len(list)-1].Type)
	assert.Equal(t, "failed", list[len(list)-1].Response.Status)
	assert.True(t, strings.HasSuffix(all1, all(t, rest)), "who followed it has the same end")
	resp = next.Responding(t, apitest.Asked(`"previous_response_id":"`+id+`",`, `"q"`))
	assert.Equal(t, "previous_response_not_found", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	resp = next.Do(t, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
	assert.Equal(t, "response_not_cancellable", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	old.Abort()
	close(gate)
	assert.Equal(t, all1, all(t, next.Resumed(t, id, -1).Body), "once")
}

// A background response is cancelled or deleted while it waits for a place and while it runs.
func TestBackgroundIsCancelled(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.Keeping(t),
		func(o *apitest.Options) { o.Max = 1 })
	running, _, body := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	event(t, body) // queued
	event(t, body) // in progress
	queued, _, queuedBody := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	deleted, _, deletedBody := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, "/v1/responses/"+deleted, "").StatusCode)
	assert.Contains(t, all(t, deletedBody), "event: error\n")
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+deleted, "").StatusCode)
	for id, body := range map[string]*bufio.Reader{queued: queuedBody, running: body} {
		for range 2 {
			resp := r.Do(t, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, "cancelled", apitest.Read[apitest.Seen](t, apitest.Text(t, resp)).Status)
		}
		rest := all(t, body)
		assert.Contains(t, rest, "event: response.incomplete\n")
		list := apitest.Events(t, all(t, r.Resumed(t, id, -1).Body))
		assert.Equal(t, "cancelled", list[len(list)-1].Response.Status)
		assert.Equal(t, "cancelled", r.Status(t, id, "cancelled").Status)
	}
}

// Another key has none of it.
func TestBackgroundBelongsToItsKey(t *testing.T) {
	gate := make(chan struct{})
	keys, secrets := apitest.WithKeys(t, "ann", "bob")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.Keeping(t),
		func(o *apitest.Options) { o.Keys = keys })
	ann, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	resp := r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`), "Authorization", ann)
	id, _, body := streamOf(t, resp)
	for range 2 {
		for _, path := range []string{"", "?stream=true", "/input_items"} {
			resp := r.Do(t, http.MethodGet, "/v1/responses/"+id+path, "", "Authorization", bob)
			assert.Equal(t, http.StatusNotFound, resp.StatusCode, path)
		}
		assert.Equal(t, http.StatusNotFound,
			r.Do(t, http.MethodDelete, "/v1/responses/"+id, "", "Authorization", bob).StatusCode)
		assert.Equal(t, http.StatusNotFound,
			r.Do(t, http.MethodPost, "/v1/responses/"+id+"/cancel", "", "Authorization", bob).StatusCode)
		if gate != nil {
			close(gate)
			all(t, body)
			gate = nil
		}
	}
}

// What cannot be made in the background is refused.
func TestBackgroundRefusals(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	without := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	for _, resp := range []*http.Response{
		r.Responding(t, apitest.Asked(inBackground+`"store":false,`, `"q"`)), without.Responding(t, apitest.Asked(inBackground, `"q"`)),
	} {
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "background", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	}
	resp := r.Responding(t, strings.Replace(apitest.Asked(inBackground, `"q"`), "demo", "none", 1))
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	resp = r.Responding(t, apitest.Asked(inBackground+`"previous_response_id":"resp_none",`, `"q"`))
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	resp = without.Do(t, http.MethodGet, "/v1/responses/x?stream=true", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	foreground := r.Whole(t, apitest.Asked("", `"q"`)).ID
	resp = r.Do(t, http.MethodGet, "/v1/responses/"+foreground+"?stream=true", "")
	assert.Equal(t, "stream", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	k := r.Socket(t)
	k.Say(apitest.Create(inBackground, `"q"`))
	assert.Contains(t, k.Hear().Error.Message, "leave background out")
}

// Many background responses wait beside the queue: a request whose client waits is served before most of them, and all
// are served in order.
func TestBackgroundWaitsBesideTheQueue(t *testing.T) {
	var order []string
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		order = append(order, turn.Request.Prompt()) // there is one place
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t), func(o *apitest.Options) { o.Max = 1; o.Queue.Limit = 4 })
	const n = 20
	var ids []string
	for i := range n {
		ids = append(ids, r.Whole(t, apitest.Asked(inBackground, fmt.Sprintf(`"%d"`, i))).ID)
	}
	r.Status(t, ids[0], "in_progress")
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Waiting() == 1 })
	answered := make(chan apitest.Seen)
	go func() { answered <- r.Whole(t, apitest.Asked("", `"waits"`)) }()
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Waiting() == 2 })
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")), "codex_background_responses_inflight 20\n")
	close(gate)
	assert.Equal(t, "completed", apitest.Received(t, answered).Status)
	for _, id := range ids {
		r.Status(t, id, "completed")
	}
	assert.Equal(t, "waits", order[2])
	order = append(order[:2], order[3:]...)
	for i, prompt := range order {
		assert.Equal(t, fmt.Sprint(i), prompt)
	}
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")), `codex_background_responses_total{outcome="completed"} 20`+"\n")
}

// The end of the service ends background responses with the reason, also for those that follow them.
func TestBackgroundAtTheEndOfTheService(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	path := filepath.Join(t.TempDir(), "responses.db")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")}, apitest.KeepingAt(t, path, 1<<24),
		func(o *apitest.Options) { o.Max = 1 })
	next := apitest.NewRig(t, &appservertest.Server{}, apitest.KeepingAt(t, path, 1<<24))
	running, _, body := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	event(t, body) // queued
	event(t, body) // in progress
	queued := r.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Connections.Unanswered() == 3 }) // a stop waits for both, and for the stream
	r.Abort()
	assert.Contains(t, all(t, body), "event: response.failed\n")
	for _, id := range []string{running, queued} {
		got := next.Status(t, id, "failed")
		assert.Contains(t, got.Error.Message, "the service stopped")
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Connections.Unanswered() == 0 })
}

// A response fails for the reason that its model has.
func TestBackgroundFails(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail("no such thing", "badRequest")}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`))
	list := apitest.Events(t, apitest.Text(t, resp))
	last := list[len(list)-1]
	assert.Equal(t, "response.failed", last.Type)
	got := r.Status(t, last.Response.ID, "failed")
	assert.Equal(t, "invalid_prompt", got.Error.Code)
	assert.Equal(t, *last.Response, got)
	for _, e := range list {
		assert.NotEqual(t, "error", e.Type)
	}
}
