package conversations_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/responses/wire"
)

func TestConversations(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	path, id := r.Talk(t, `{"metadata":{"a":"b"},"items":[{"role":"developer","content":"be kind"}]}`)
	assert.Regexp(t, "^conv_[0-9a-f]{24}$", id)
	type conversation struct {
		ID, Object string
		CreatedAt  int64 `json:"created_at"`
		Metadata   map[string]string
	}
	got := apitest.Read[conversation](t, apitest.Text(t, r.Do(t, http.MethodGet, path, "")))
	assert.Equal(t, conversation{ID: id, Object: "conversation", CreatedAt: got.CreatedAt,
		Metadata: map[string]string{"a": "b"}}, got)
	assert.Positive(t, got.CreatedAt)
	changed := apitest.Read[conversation](t, apitest.Text(t, r.Do(t, http.MethodPost, path, `{"metadata":{"c":"d"}}`)))
	assert.Equal(t, map[string]string{"c": "d"}, changed.Metadata)

	added := r.Do(t, http.MethodPost, path+"/items", `{"items":[{"role":"user","content":"q1"},
		{"type":"message","role":"assistant","id":"msg_mine","status":"completed",
			"content":[{"type":"output_text","text":"a1","annotations":[]}]},{"type":"web_search_call"}]}`)
	assert.Equal(t, "items.web_search_call", added.Header.Get("X-Codex-Ignored-Params"))
	list := apitest.Read[apitest.SeenList](t, apitest.Text(t, added))
	require.Len(t, list.Data, 2)
	assert.Equal(t, "list", list.Object)
	assert.Regexp(t, "^msg_[0-9a-f]{24}$", list.Data[0].ID)
	assert.Equal(t, "msg_mine", *list.LastID)
	assert.Equal(t, []string{"be kind", "q1", "a1"}, r.Words(t, path))

	t.Run("pages", func(t *testing.T) {
		first := apitest.Read[apitest.SeenList](t, apitest.Text(t, r.Do(t, http.MethodGet, path+"/items?limit=2", "")))
		assert.Equal(t, "msg_mine", *first.FirstID)
		assert.True(t, first.HasMore)
		next := apitest.Read[apitest.SeenList](t, apitest.Text(t, r.Do(t, http.MethodGet, path+"/items?limit=2&after="+*first.LastID, "")))
		require.Len(t, next.Data, 1)
		assert.False(t, next.HasMore)
		none := apitest.Read[apitest.SeenList](t, apitest.Text(t, r.Do(t, http.MethodGet, path+"/items?after="+*next.LastID, "")))
		assert.Empty(t, none.Data)
		assert.Nil(t, none.FirstID)
		for _, query := range []string{"limit=0", "limit=101", "order=up", "after=none", "include=all"} {
			resp := r.Do(t, http.MethodGet, path+"/items?"+query, "")
			assert.Equal(t, http.StatusBadRequest, resp.StatusCode, query)
		}
	})
	t.Run("one item", func(t *testing.T) {
		item := apitest.Read[apitest.SeenItem](t, apitest.Text(t, r.Do(t, http.MethodGet, path+"/items/msg_mine", "")))
		assert.Equal(t, "a1", item.Content[0].Text)
		assert.Equal(t, changed, apitest.Read[conversation](t, apitest.Text(t, r.Do(t, http.MethodDelete, path+"/items/msg_mine", ""))))
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			resp := r.Do(t, method, path+"/items/msg_mine", "")
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			assert.Equal(t, "item_not_found", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
		}
	})
	t.Run("an id twice", func(t *testing.T) {
		const mine = `{"role":"user","content":"x","id":"msg_1"}`
		resp := r.Do(t, http.MethodPost, path+"/items", `{"items":[`+mine+`,`+mine+`]}`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "duplicate_item", e.Code)
		assert.Contains(t, e.Message, `"msg_1"`)
	})
	t.Run("deleted", func(t *testing.T) {
		assert.JSONEq(t, `{"id":"`+id+`","object":"conversation.deleted","deleted":true}`,
			apitest.Text(t, r.Do(t, http.MethodDelete, path, "")))
		for _, try := range [][2]string{{http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, ""},
			{http.MethodGet, "/items"}, {http.MethodGet, "/items/msg_mine"}, {http.MethodDelete, "/items/msg_mine"}} {
			resp := r.Do(t, try[0], path+try[1], "")
			if try[0] == http.MethodPost {
				resp = r.Do(t, try[0], path+try[1], `{"metadata":null}`)
			}
			assert.Equal(t, http.StatusNotFound, resp.StatusCode, try)
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "conversation_not_found", e.Code)
			assert.Equal(t, "conversation_id", *e.Param)
		}
	})
}

// openai-node sends no body for a conversation without items.
func TestConversationWithoutABody(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{}, apitest.Keeping(t))
	path, _ := r.Talk(t, "")
	assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, path, "")), `"metadata":{}`)
}

// A response takes the items of its conversation as its history, and adds its input and output.
func TestResponsesInAConversation(t *testing.T) {
	given := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)}, apitest.Keeping(t))
	path, id := r.Talk(t, `{"items":[{"role":"user","content":"q0"},{"role":"assistant","content":"a0"}]}`)
	in := `"conversation":"` + id + `",`
	first := r.Whole(t, apitest.Asked(in, `"q1"`))
	assert.Equal(t, id, first.Conversation.ID)
	assert.Len(t, (<-given).Items, 3)
	assert.Equal(t, []string{"q0", "a0", "q1", "reasoning", "answer to q1"}, r.Words(t, path))

	second := r.Whole(t, apitest.Asked(`"store":false,"stream":false,"conversation":{"id":"`+id+`"},`, `"q2"`))
	request := <-given
	assert.Len(t, request.Items, 6, "with the reasoning")
	assert.Equal(t, "q2", request.Prompt())
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, "/v1/responses/"+second.ID, "").StatusCode)
	words := []string{"q0", "a0", "q1", "reasoning", "answer to q1", "q2", "reasoning", "answer to q2"}
	assert.Equal(t, words, r.Words(t, path))

	t.Run("its input items", func(t *testing.T) {
		list := apitest.Read[apitest.SeenList](t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+first.ID+"/input_items?order=asc", "")))
		require.Len(t, list.Data, 3)
		assert.Equal(t, "q0", list.Data[0].Content[0].Text)
		assert.Equal(t, "q1", list.Data[2].Content[0].Text)
	})
	t.Run("continued outside of it", func(t *testing.T) {
		r.Whole(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"aside"`))
		assert.Len(t, (<-given).Items, 6)
		assert.Equal(t, words, r.Words(t, path))
	})
	t.Run("the encrypted reasoning", func(t *testing.T) {
		of := path + "/items/" + first.Output[0].ID
		assert.Empty(t, apitest.Read[apitest.SeenItem](t, apitest.Text(t, r.Do(t, http.MethodGet, of, ""))).Encrypted)
		for _, query := range []string{"include", "include[]"} {
			full := apitest.Text(t, r.Do(t, http.MethodGet, of+"?"+query+"=reasoning.encrypted_content", ""))
			assert.Contains(t, apitest.Read[apitest.SeenItem](t, full).Encrypted, "demo")
		}
	})
	t.Run("a reference", func(t *testing.T) {
		r.Whole(t, apitest.Asked(in, `[{"type":"item_reference","id":"`+first.Output[1].ID+`"},{"role":"user","content":"q3"}]`))
		assert.Contains(t, string((<-given).Items[8]), "answer to q1", "the copy has an id of its own")
		words = append(words, "answer to q1", "q3", "reasoning", "answer to q3")
		assert.Equal(t, words, r.Words(t, path))
	})
	t.Run("an item again", func(t *testing.T) {
		resp := r.Responding(t, apitest.Asked(in, `[{"role":"user","content":"x","id":"`+first.Output[1].ID+`"}]`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "duplicate_item", e.Code)
		assert.Equal(t, "input[0].id", *e.Param)
	})
	t.Run("the response is deleted", func(t *testing.T) {
		require.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, "/v1/responses/"+first.ID, "").StatusCode)
		assert.Equal(t, words, r.Words(t, path))
		r.Whole(t, apitest.Asked(in, `"q4"`))
		<-given
	})
	t.Run("both kinds of history", func(t *testing.T) {
		resp := r.Responding(t, apitest.Asked(in+`"previous_response_id":"resp_1",`, `"q"`))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "mutually_exclusive_parameters", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	})
	t.Run("no such conversation", func(t *testing.T) {
		resp := r.Responding(t, apitest.Asked(`"conversation":"conv_1",`, `"q"`))
		assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "conversation_not_found", e.Code)
		assert.Equal(t, "conversation", *e.Param)
	})
}

func TestConversationsAreTheKeys(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "ann", "bob")
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t), func(o *apitest.Options) { o.Keys = keys })
	ann, bob := []string{"Authorization", "Bearer " + secrets[0]}, []string{"Authorization", "Bearer " + secrets[1]}
	path, id := r.Talk(t, `{"items":[{"role":"user","content":"x","id":"msg_1"}]}`, ann...)
	for _, try := range [][3]string{
		{http.MethodGet, "", ""}, {http.MethodDelete, "", ""}, {http.MethodPost, "", `{"metadata":{}}`},
		{http.MethodGet, "/items", ""}, {http.MethodPost, "/items", `{"items":[{"role":"user","content":"x"}]}`},
		{http.MethodGet, "/items/msg_1", ""}, {http.MethodDelete, "/items/msg_1", ""},
	} {
		resp := r.Do(t, try[0], path+try[1], try[2], bob...)
		assert.Equal(t, http.StatusNotFound, resp.StatusCode, try)
	}
	resp := r.Responding(t, apitest.Asked(`"conversation":"`+id+`",`, `"x"`), bob...)
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	resp = r.Responding(t, apitest.Asked("", `[{"type":"item_reference","id":"msg_1"}]`), bob...)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, []string{"x"}, r.Words(t, path, ann...))
}

// One response at a time is made in a conversation, and its items do not change meanwhile.
func TestConversationsAreLocked(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half", " rest")}, apitest.Keeping(t))
	path, id := r.Talk(t, `{"items":[{"role":"user","content":"x","id":"msg_1"}]}`)
	in := `"conversation":"` + id + `",`
	resp := r.Responding(t, apitest.Asked(in+`"stream":true,`, `"q"`))
	for _, refused := range []*http.Response{
		r.Responding(t, apitest.Asked(in, `"q2"`)), r.Responding(t, apitest.Asked(in+`"stream":true,`, `"q2"`)),
		r.Do(t, http.MethodPost, path+"/items", `{"items":[{"role":"user","content":"x"}]}`),
		r.Do(t, http.MethodDelete, path+"/items/msg_1", ""),
	} {
		assert.Equal(t, http.StatusBadRequest, refused.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, refused)).Error
		assert.Equal(t, "conversation_locked", e.Code)
		assert.Equal(t, "invalid_request_error", e.Type)
	}
	assert.Equal(t, []string{"x"}, r.Words(t, path), "it can be read")
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodPost, "/v1/responses/input_tokens", apitest.Asked(in, `"q"`)).StatusCode,
		"and counted")
	close(gate)
	list := apitest.Events(t, apitest.Text(t, resp))
	assert.Equal(t, "response.completed", list[len(list)-1].Type)
	assert.Equal(t, []string{"x", "q", "half rest"}, r.Words(t, path))
	r.Whole(t, apitest.Asked(in, `"q2"`))
	assert.Len(t, r.Words(t, path), 5)
}

// The end of a response frees its conversation before its client has the end.
func TestConversationsAreFreeAtTheEnd(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	path, id := r.Talk(t, "")
	for i := range 20 {
		extra := `"conversation":"` + id + `",`
		if i%2 == 0 {
			extra += `"stream":true,`
		}
		resp := r.Responding(t, apitest.Asked(extra, fmt.Sprintf(`"q%d"`, i)))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		apitest.Text(t, resp)
	}
	assert.Len(t, r.Words(t, path), 60)
}

// A response that fails, is cancelled, or loses its client adds nothing to its conversation, and frees it.
func TestUnfinishedResponsesInAConversation(t *testing.T) {
	begun := make(chan struct{}, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if turn.Request.Prompt() == "fine" {
			return apitest.Thinker(ctx, turn)
		}
		turn.Begin("").Delta("half")
		if turn.Request.Prompt() == "fail" {
			return &appservertest.Failure{Message: "it broke", Info: "other"}
		}
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}, apitest.Keeping(t))
	path, id := r.Talk(t, "")
	in := `"conversation":"` + id + `","stream":true,`
	list := apitest.Events(t, apitest.Text(t, r.Responding(t, apitest.Asked(in, `"fail"`))))
	failed := list[len(list)-1]
	require.Equal(t, "response.failed", failed.Type)
	assert.Empty(t, r.Words(t, path))

	resp := r.Responding(t, apitest.Asked(in, `"wait"`))
	<-begun
	frame := make([]byte, 200)
	_, err := resp.Body.Read(frame)
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(frame), `"response":{"id":"`)
	waiting, _, _ := strings.Cut(after, `"`)
	require.Equal(t, http.StatusOK, r.Do(t, http.MethodPost, "/v1/responses/"+waiting+"/cancel", "").StatusCode)
	apitest.Text(t, resp)
	assert.Empty(t, r.Words(t, path))
	stored := apitest.Read[apitest.Seen](t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/responses/"+waiting, "")))
	assert.Equal(t, wire.StatusCancelled, stored.Status)
	assert.Equal(t, id, stored.Conversation.ID)

	gone := r.Responding(t, apitest.Asked(in, `"wait"`), "X-Request-Id", "gone")
	<-begun
	require.NoError(t, gone.Body.Close())
	r.Log.Request(t, "gone")
	r.Whole(t, apitest.Asked(`"conversation":"`+id+`",`, `"fine"`))
	assert.Equal(t, []string{"fine", "reasoning", "answer to fine"}, r.Words(t, path))
}

// A conversation that is deleted while a response is made in it takes nothing; the client has its answer.
func TestConversationsAreDeletedMeanwhile(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "half", " rest")}, apitest.Keeping(t))
	path, id := r.Talk(t, "")
	resp := r.Responding(t, apitest.Asked(`"conversation":"`+id+`","stream":true,`, `"q"`))
	require.Equal(t, http.StatusOK, r.Do(t, http.MethodDelete, path, "").StatusCode)
	close(gate)
	list := apitest.Events(t, apitest.Text(t, resp))
	assert.Equal(t, "response.completed", list[len(list)-1].Type)
	assert.Equal(t, http.StatusNotFound, r.Do(t, http.MethodGet, path, "").StatusCode)
	require.Equal(t, http.StatusNotFound, r.Responding(t, apitest.Asked(`"conversation":"`+id+`",`, `"q"`)).StatusCode)
}

// An answer that its conversation cannot take fails: the next response would not know of it.
func TestConversationsWithoutRoom(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply(strings.Repeat("x", 40<<10))}, apitest.Keeping(t, 30<<10))
	path, id := r.Talk(t, "")
	for _, extra := range []string{"", `"store":false,`} {
		resp := r.Responding(t, apitest.Asked(extra+`"conversation":"`+id+`",`, `"q"`))
		assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "conversation_not_extended", e.Code)
		assert.Contains(t, e.Message, "response_storage")
	}
	list := apitest.Events(t, apitest.Text(t, r.Responding(t, apitest.Asked(`"stream":true,"conversation":"`+id+`",`, `"q"`))))
	last := list[len(list)-1]
	assert.Equal(t, "response.failed", last.Type)
	assert.Contains(t, last.Response.Error.Message, "response_storage")
	assert.Equal(t, "completed", last.Response.Output[0].Status)
	assert.Empty(t, r.Words(t, path))
	resp := r.Do(t, http.MethodPost, path+"/items",
		`{"items":[{"role":"user","content":"`+strings.Repeat("x", 40<<10)+`"}]}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message, "response_storage")
}

// Without a store there are no conversations.
func TestConversationsAreNotKept(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	resp := r.Do(t, http.MethodPost, "/v1/conversations", `{}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Equal(t, "conversations_not_kept", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	for _, try := range [][3]string{
		{http.MethodGet, "/v1/conversations/conv_1", ""}, {http.MethodPost, "/v1/conversations/conv_1", `{}`},
		{http.MethodDelete, "/v1/conversations/conv_1", ""}, {http.MethodGet, "/v1/conversations/conv_1/items", ""},
		{http.MethodPost, "/v1/conversations/conv_1/items", `{"items":[]}`},
		{http.MethodGet, "/v1/conversations/conv_1/items/i", ""}, {http.MethodDelete, "/v1/conversations/conv_1/items/i", ""},
		{http.MethodPost, "/v1/responses", apitest.Asked(`"conversation":"conv_1",`, `"q"`)},
	} {
		resp := r.Do(t, try[0], try[1], try[2])
		assert.Equal(t, http.StatusNotFound, resp.StatusCode, try)
		assert.Contains(t, apitest.Failure(t, apitest.Text(t, resp)).Error.Message, "response_retention")
	}
}

// On a WebSocket a response is in a conversation as on any other way.
func TestConversationOnAWebSocket(t *testing.T) {
	given := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)}, apitest.Keeping(t))
	path, id := r.Talk(t, "")
	k := r.Socket(t)
	for i, extra := range []string{"", `"store":false,`} {
		k.Say(apitest.Create(extra+`"conversation":"`+id+`",`, fmt.Sprintf(`"q%d"`, i)))
		last := k.Response()
		assert.Equal(t, id, last.Response.Conversation.ID)
		assert.Len(t, (<-given).Items, 3*i+1)
	}
	assert.Equal(t, []string{"q0", "reasoning", "answer to q0", "q1", "reasoning", "answer to q1"}, r.Words(t, path))
	k.Say(apitest.Create(`"generate":false,"conversation":"`+id+`",`, `"q2"`))
	warm := k.Response()
	k.Say(apitest.Create(`"previous_response_id":"`+warm.Response.ID+`",`, `"q3"`))
	k.Response()
	assert.Len(t, (<-given).Items, 8)
	assert.Len(t, r.Words(t, path), 7)
	k.Say(apitest.Create(`"conversation":"conv_1",`, `"q"`))
	assert.Equal(t, "conversation_not_found", k.Hear().Error.Code)
}
