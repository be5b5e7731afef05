package responses_test

import (
	"bufio"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/internal/sqlite"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/test/contract"
)

func TestWholeResponse(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	got := r.Whole(t, apitest.Asked(`"metadata":{"a":"b"},"instructions":"be brief","temperature":1,`, `"q"`))
	assert.Equal(t, "completed", got.Status)
	require.Len(t, got.Output, 2)
	assert.Equal(t, "reasoning", got.Output[0].Type)
	assert.Empty(t, got.Output[0].Encrypted, "nobody has asked for it")
	assert.Equal(t, "answer to q", got.Output[1].Content[0].Text)
	assert.Equal(t, 13, got.Usage.Total)
	resp := r.Responding(t, apitest.Asked(`"temperature":1,"include":["reasoning.encrypted_content"],`, `"q"`))
	assert.Equal(t, "temperature", resp.Header.Get("X-Codex-Ignored-Params"))
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Contains(t, apitest.Text(t, resp), `"encrypted_content":"`+reasoning.Origin("default")+`demo"`)
}

// The stream ends in what a whole answer would have been.
func TestStreamedResponse(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(`"stream":true,"reasoning":{"summary":"auto"},`, `"q"`))
	assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	list := apitest.Events(t, apitest.Text(t, resp))
	var kinds []string
	for _, e := range list {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
	}
	assert.Equal(t, []string{
		"created", "in_progress", "output_item.added", "reasoning_summary_part.added",
		"reasoning_summary_text.delta", "reasoning_summary_text.delta",
		"reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done", "output_item.added",
		"content_part.added",
		"output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
		"completed",
	}, kinds)
	last := list[len(list)-1].Response
	assert.Equal(t, "answer to q", last.Output[1].Content[0].Text)
	stored := r.Do(t, http.MethodGet, "/v1/responses/"+last.ID, "")
	assert.Equal(t, *last, apitest.Read[apitest.Seen](t, apitest.Text(t, stored)), "what is stored is what was sent")
}

// What a response continues is what its model is given, whoever sends it.
func TestResponsesContinue(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		if turn.Request.Prompt() == "call" {
			turn.Call(ctx, "f", `{"a":1}`)
			return nil
		}
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	const tools = `"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}],`
	first := r.Whole(t, apitest.Asked("", `"q1"`))
	second := r.Whole(t, apitest.Asked(tools+`"previous_response_id":"`+first.ID+`",`, `"call"`))
	require.Equal(t, "function_call", second.Output[0].Type)
	assert.Equal(t, first.ID, *second.Previous)
	third := r.Whole(t, apitest.Asked(tools+`"instructions":"new","previous_response_id":"`+second.ID+`",`,
		`[{"type":"function_call_output","call_id":"`+second.Output[0].CallID+`","output":[{"type":"input_text","text":"out"}]}]`))
	assert.Equal(t, "completed", third.Status)
	<-given
	<-given
	last := <-given
	var items []string
	for _, item := range last.Items {
		items = append(items, string(item))
	}
	id := second.Output[0].CallID
	assert.Equal(t, []string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"q1"}]}`,
		`{"type":"reasoning","summary":[],"content":null,"encrypted_content":"demo"}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"answer to q1"}]}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"call"}]}`,
		`{"type":"function_call","name":"f","arguments":"{\"a\":1}","call_id":"` + id + `"}`,
		`{"type":"function_call_output","call_id":"` + id + `","output":[{"type":"input_text","text":"out"}]}`,
	}, items)
	assert.Equal(t, "new", *last.BaseInstructions)
	assert.Equal(t, "none", last.Summary)

	t.Run("input items", func(t *testing.T) {
		list := apitest.Read[struct {
			Data    []apitest.SeenItem
			FirstID string `json:"first_id"`
			HasMore bool   `json:"has_more"`
		}](t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+third.ID+"/input_items?order=asc&limit=2", "")))
		require.Len(t, list.Data, 2)
		assert.Equal(t, "q1", list.Data[0].Content[0].Text)
		assert.Equal(t, list.Data[0].ID, list.FirstID)
		assert.True(t, list.HasMore)
	})
	t.Run("references", func(t *testing.T) {
		r.Whole(t, apitest.Asked("", `[{"role":"user","content":"again"},{"type":"item_reference","id":"`+first.Output[1].ID+`"},{"role":"user","content":"more"}]`))
		assert.Contains(t, string((<-given).Items[1]), "answer to q1")
	})
	t.Run("too many references", func(t *testing.T) {
		r.Whole(t, apitest.Asked("", `[{"role":"user","id":"msg_large","content":"`+strings.Repeat("x", 1000<<10)+`"}]`))
		<-given
		const reference = `{"type":"item_reference","id":"msg_large"}`
		resp := r.Responding(t, apitest.Asked("", "["+strings.Repeat(reference+",", 1000)+reference+"]"))
		assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "request_too_large", e.Code)
		assert.Equal(t, "input[61]", *e.Param, "where it was too much")
		assert.Contains(t, e.Message, "62914560 bytes")
		resp = r.Responding(t,
			apitest.Asked("", "["+strings.Repeat(reference+",", 61)+`{"role":"user","content":"`+strings.Repeat("x",
				500<<10)+`"}]`))
		assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "what is sent counts, too")
		assert.Equal(t, "input[61]", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	})
	t.Run("deleted", func(t *testing.T) {
		assert.JSONEq(t, `{"id":"`+first.ID+`","object":"response","deleted":true}`,
			apitest.Text(t, r.Do(t, http.MethodDelete, "/v1/responses/"+first.ID, "")))
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			resp := r.Do(t, method, "/v1/responses/"+first.ID, "")
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			assert.Equal(t, "response_not_found", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
		}
		resp := r.Responding(t, apitest.Asked(`"previous_response_id":"`+third.ID+`",`, `"x"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "previous_response_not_found", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	})
}

func TestResponsesAreTheKeys(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann", "bob")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys = keys })
	ann, bob := []string{"Authorization", "Bearer " + secrets[0]}, []string{"Authorization", "Bearer " + secrets[1]}
	first := r.Whole(t, apitest.Asked("", `"q"`), ann...)
	for _, try := range [][2]string{{http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, "/cancel"},
		{http.MethodGet, "/input_items"}} {
		resp := r.Do(t, try[0], "/v1/responses/"+first.ID+try[1], "", bob...)
		assert.Equal(t, http.StatusNotFound, resp.StatusCode, try)
	}
	resp := r.Responding(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"x"`), bob...)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID, "", ann...).StatusCode)
}

func TestResponsesAreNotKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*apitest.Options)
		extra  string
	}{
		"as the client wishes":   {apitest.Keeping(t), `"store":false,`},
		"as the operator wishes": {func(*apitest.Options) {}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, tc.change)
			got := r.Whole(t, apitest.Asked(tc.extra, `"q"`))
			assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+got.ID, "").StatusCode)
			resp := r.Responding(t, apitest.Asked(`"previous_response_id":"`+got.ID+`",`, `"x"`))
			assert.Equal(t, "previous_response_not_found", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
		})
	}
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	resp := r.Responding(t, apitest.Asked(`"store":true,`, `"q"`))
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, "store", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
}

// To be continued is to be used, by a response that is not kept, too.
func TestContinuedResponsesAreRenewed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "responses.db")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.KeepingAt(t, path, 1<<24))
	db, err := sqlite.Readers(path)
	require.NoError(t, err)
	defer db.Close()
	first := r.Whole(t, apitest.Asked("", `"q"`)).ID
	used := func() (at int64) {
		require.NoError(t, db.QueryRow("SELECT used FROM links WHERE id = ?", first).Scan(&at))
		return at
	}
	before := used()
	apitest.Await(t, apitest.Tick(t), func() bool { return time.Now().UnixMilli() > before })
	r.Whole(t, apitest.Asked(`"store":false,"previous_response_id":"`+first+`",`, `"q2"`))
	assert.Greater(t, used(), before)
}

func TestCancelResponse(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half", "rest")}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(`"stream":true,`, `"q"`))
	stream := make(chan string, 1)
	begun := make(chan string, 1)
	go func() {
		var all strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buffer)
			all.Write(buffer[:n])
			if _, after, ok := strings.Cut(all.String(), `"response":{"id":"`); ok &&
				strings.Contains(all.String(), `"half"`) && cap(begun) > len(begun) {
				id, _, _ := strings.Cut(after, `"`)
				select {
				case begun <- id:
				default:
				}
			}
			if err != nil {
				stream <- all.String()
				return
			}
		}
	}()
	id := apitest.Received(t, begun)
	cancelled := r.Do(t, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
	answer := apitest.Text(t, cancelled)
	require.Equal(t, http.StatusOK, cancelled.StatusCode, answer)
	assert.Equal(t, wire.StatusCancelled, apitest.Read[apitest.Seen](t, answer).Status)
	list := apitest.Events(t, apitest.Received(t, stream))
	last := list[len(list)-1]
	assert.Equal(t, "response.incomplete", last.Type)
	assert.Equal(t, wire.StatusCancelled, last.Response.Status)
	assert.Equal(t, "half", last.Response.Output[0].Content[0].Text)
	stored := apitest.Read[apitest.Seen](t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+id, "")))
	assert.Equal(t, wire.StatusCancelled, stored.Status)

	again := r.Do(t, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
	assert.Equal(t, http.StatusBadRequest, again.StatusCode)
	assert.Equal(t, "cannot cancel a cancelled response", apitest.Failure(t, apitest.Text(t, again)).Error.Message)
	assert.Equal(t, "1", apitest.Metric(t, r, `codex_turns_total{outcome="cancelled"}`))
	assert.Equal(t, "0", apitest.Metric(t, r, `codex_turns_total{outcome="completed"}`))
}

// A failure is a status until something has left, and response.failed after that.
func TestFailedResponse(t *testing.T) {
	fails := func(chunks ...string) appservertest.Handler {
		return func(_ context.Context, turn *appservertest.Turn) error {
			m := turn.Begin("")
			for _, c := range chunks {
				m.Delta(c)
			}
			return &appservertest.Failure{Message: "boom", Info: "serverOverloaded"}
		}
	}
	for _, stream := range []string{"", apitest.Streaming} {
		r := apitest.NewRig(t, &appservertest.Server{Handler: fails()}, apitest.Keeping(t))
		resp := r.Responding(t, apitest.Asked(stream, `"q"`))
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	r := apitest.NewRig(t, &appservertest.Server{Handler: fails("half")}, apitest.Keeping(t))
	resp := r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`))
	id := resp.Header.Get("X-Request-Id")
	list := apitest.Events(t, apitest.Text(t, resp))
	last := list[len(list)-1]
	assert.Equal(t, "error", list[len(list)-2].Type)
	assert.Equal(t, "response.failed", last.Type)
	assert.Equal(t, "server_error", last.Response.Error.Code)
	assert.Equal(t, "half", last.Response.Output[0].Content[0].Text)
	assert.Equal(t, "overloaded", r.Log.Request(t, id)["outcome"])
}

// That the conversation is too long is told in the same word before and after the
// first one of the model: the codex CLI goes by it.
func TestConversationThatIsTooLong(t *testing.T) {
	schema, err := contract.Compile()
	require.NoError(t, err)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() == "late" {
			turn.Begin("").Delta("half")
		}
		return &appservertest.Failure{Message: "too long", Info: "contextWindowExceeded"}
	}})
	for _, stream := range []string{"", apitest.Streaming} {
		resp := r.Responding(t, apitest.Asked(stream, `"early"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "context_length_exceeded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	answer, err := schema.ResponseStream(strings.NewReader(apitest.Text(t, r.Responding(t, apitest.Asked(apitest.Streaming, `"late"`)))))
	require.NoError(t, err)
	require.NotNil(t, answer.Failure)
	assert.Equal(t, "context_length_exceeded", answer.Failure.Code)
	assert.Equal(t, "context_length_exceeded", answer.Alert.Code)
	assert.Equal(t, "input", *answer.Alert.Param)
	k := r.Socket(t)
	k.Say(apitest.Create("", `"early"`))
	if refused := k.Response(); refused.Response == nil { // the refusal came before response.created
		assert.Equal(t, "context_length_exceeded", refused.Error.Code)
	} else {
		assert.Equal(t, "context_length_exceeded", refused.Response.Error.Code)
	}
	k.Say(apitest.Create("", `"late"`))
	assert.Equal(t, "context_length_exceeded", k.Response().Response.Error.Code)
}

// A turn that is lost before anything was sent runs again, and leaves no trace
// in the answer.
func TestLostResponseRunsAgain(t *testing.T) {
	tries := 0
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if tries++; tries == 1 {
			turn.Text("lost")
			turn.Notify("turn/completed",
				map[string]any{"turn": map[string]any{"id": turn.ID, "status": "interrupted", "items": []any{}}})
			return nil
		}
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t))
	got := r.Whole(t, apitest.Asked("", `"q"`))
	require.Len(t, got.Output, 2)
	assert.Equal(t, "answer to q", got.Output[1].Content[0].Text)
}

// A response that continues another goes on in its thread, where the reasoning
// still is.
func TestResponsesContinueInTheirThread(t *testing.T) {
	given := make(chan appservertest.Request, 4)
	threads := make(chan string, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		threads <- turn.ThreadID
		return apitest.Thinker(ctx, turn)
	}}, apitest.Keeping(t), func(o *apitest.Options) { o.ThreadCache = 4 })
	first := r.Whole(t, apitest.Asked("", `"q1"`))
	second := r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q2"`))
	assert.Equal(t, "answer to q2", second.Output[1].Content[0].Text)
	<-given
	assert.Len(t, (<-given).Items, 2, "the two questions: nothing of the answer came from us")
	assert.Equal(t, <-threads, <-threads)
}

// A model whose refusal codex keeps to itself has refused.
func TestRefusedResponse(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.EndResponse(appservertest.Usage{Input: 10, Output: 3})
		return nil
	}})
	stream := apitest.Text(t, r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`)))
	assert.Contains(t, stream, "event: response.refusal.done\n")
	assert.Contains(t, stream, `"content":[{"type":"refusal","refusal":"`+answer.Withheld)
}

// What cannot be stored is answered, and the journal says so.
func TestResponsesWithoutADisk(t *testing.T) {
	var broken stored.Store
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t), func(o *apitest.Options) { broken = o.Responses })
	require.NoError(t, broken.Close())
	got := r.Whole(t, apitest.Asked("", `"q"`))
	assert.Equal(t, "completed", got.Status)
	assert.Contains(t, r.Log.String(), "a response is not stored")
	resp := r.Do(t, http.MethodGet, "/v1/responses/"+got.ID, "")
	assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
}

// Where the database could not be opened yet, responses are answered, and stored ones
// have to wait. Nothing is logged for each of them.
func TestResponsesBeforeTheirDatabase(t *testing.T) {
	store := apitest.NewStore(filepath.Join(t.TempDir(), "responses.db"), 1<<24)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, func(o *apitest.Options) { o.Responses = store })
	got := r.Whole(t, apitest.Asked(`"store":true,`, `"q"`))
	assert.Equal(t, "completed", got.Status)
	for _, resp := range []*http.Response{
		r.Do(t, http.MethodGet, "/v1/responses/"+got.ID, ""), r.Do(t, http.MethodDelete, "/v1/responses/"+got.ID, ""),
		r.Do(t, http.MethodGet, "/v1/responses/"+got.ID+"/input_items", ""),
		r.Responding(t, apitest.Asked(`"previous_response_id":"`+got.ID+`",`, `"q2"`)),
		r.Responding(t, apitest.Asked("", `[{"type":"item_reference","id":"msg_1"}]`)),
	} {
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "responses_unavailable", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}
	assert.NotContains(t, r.Log.String(), "level=ERROR")
	require.NoError(t, store.Open(t.Context()))
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	got = r.Whole(t, apitest.Asked("", `"q3"`))
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/v1/responses/"+got.ID, "").StatusCode)
}

// The stream begins properly when the model takes its time.
func TestSilentResponse(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "", "late")},
		func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	resp := r.Responding(t, apitest.Asked(apitest.Streaming, `"q"`))
	body := bufio.NewReader(resp.Body)
	line, err := body.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "event: response.created\n", line)
	for line != ": keepalive\n" {
		line, err = body.ReadString('\n')
		require.NoError(t, err)
	}
	close(gate)
	rest := apitest.Text(t, apitest.Unread(resp, body))
	assert.Contains(t, rest, "event: response.completed\n")
	assert.NotContains(t, rest, "event: response.created\n")
}
