package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/appserver/appservertest"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// Reasoning goes back to the worker that made it, and to no other, whoever brings
// it back.
func TestReasoningStaysWithItsWorker(t *testing.T) {
	theirs, foreign := appserver.Reasoning(nil, "theirs"), appserver.Reasoning(nil, "from elsewhere")
	question := appserver.TextMessage("user", "q")
	var from origins
	from.add(theirs, markOf("b"))
	from.add(foreign, "")
	assert.Equal(t, []appserver.Item{foreign, question}, from.fit("a", []appserver.Item{theirs, foreign, question}))
	assert.Equal(t, []appserver.Item{theirs, question}, from.fit("b", []appserver.Item{theirs, question}))

	given := make(chan appservertest.Request, 4)
	r := newRig(t, &appservertest.Server{Handler: telling(given)})
	assert.Equal(t, "default", r.prefers(&origins{last: markOf("default")}))
	assert.Empty(t, r.prefers(&from))
	const store = `"store":false,"include":["reasoning.encrypted_content"],`
	first := r.whole(t, asked(store, `"q1"`))
	brought := first.Output[0].Encrypted
	assert.Equal(t, markOf("default")+"demo", brought)
	for _, encrypted := range []string{brought, "demo", markOf("another") + "demo"} {
		r.whole(t, asked(store, `[{"role":"user","content":"q1"},{"type":"reasoning","summary":[],"encrypted_content":"`+encrypted+`"},{"role":"user","content":"q2"}]`))
	}
	<-given
	for range 2 {
		assert.Contains(t, string((<-given).Items[1]), `"encrypted_content":"demo"`)
	}
	assert.Len(t, (<-given).Items, 2)
}

// A copy of reasoning in the input of another response is still its worker's.
func TestCopiedReasoningStaysWithItsWorker(t *testing.T) {
	given := make(chan appservertest.Request, 8)
	r := newRig(t, &appservertest.Server{Handler: telling(given)}, keeping(t))
	first := r.whole(t, asked("", `"q1"`))
	referring := r.whole(t, asked("", `[{"type":"item_reference","id":"`+first.Output[0].ID+`"},{"role":"user","content":"q2"}]`))
	k := r.socket(t)
	k.say(create(`"store":false,`, `"q1"`))
	loose := k.response().Response.ID
	k.say(create(`"previous_response_id":"`+loose+`",`, `"q2"`))
	continuing := k.response().Response
	<-given
	assert.Contains(t, string((<-given).Items[0]), `"encrypted_content":"demo"`, "as the worker knows it")
	for _, id := range []string{referring.ID, continuing.ID} {
		list := text(t, r.do(t, http.MethodGet, "/v1/responses/"+id+"/input_items", ""))
		assert.Contains(t, list, `"encrypted_content":"`+markOf("default")+`demo"`)
		history, err := r.Responses.History(t.Context(), "", id)
		require.NoError(t, err)
		turn, from, _, err := planResponse(&openai.ResponseRequest{Model: "demo"}, asStored(history))
		require.NoError(t, err)
		for _, item := range from.fit("another", turn.Items) {
			assert.NotContains(t, string(item), "encrypted_content")
		}
	}
}

// Who ends a request while the store is read is told why, and nobody is alarmed.
func TestLookupsThatAreEnded(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, keeping(t))
	id := r.whole(t, asked("", `"q"`)).ID
	if running := r.running.find(id, ""); running != nil {
		<-running.over // it was answered a moment before
	}
	for cause, status := range map[error]int{context.Canceled: 499, ErrDeadline: 503, openai.Timeout("request_timeout", "late"): 504} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for _, try := range [][2]string{{http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, "/cancel"}, {http.MethodGet, "/input_items"}} {
			answer := httptest.NewRecorder()
			r.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, try[0], "http://localhost/v1/responses/"+id+try[1], nil))
			assert.Equal(t, status, answer.Code, try)
		}
		for _, body := range []string{asked(`"previous_response_id":"`+id+`",`, `"q"`), asked("", `[{"type":"item_reference","id":"x"}]`)} {
			req, err := openai.DecodeResponse([]byte(body))
			require.NoError(t, err)
			_, err = r.newResponse(ctx, &exchange{}, req, nil)
			answer := httptest.NewRecorder()
			r.fail(answer, httptest.NewRequestWithContext(context.WithValue(ctx, exchangeKey{}, &exchange{}), http.MethodPost, "/", nil), err)
			assert.Equal(t, status, answer.Code, body)
		}
	}
	assert.NotContains(t, r.log.String(), `"level":"ERROR"`)
}

func TestInputItemsOfALongConversation(t *testing.T) {
	var store *stored.Store
	r := newRig(t, &appservertest.Server{Handler: thinker}, keeping(t, 1<<30), func(o *options) { store = o.Responses })
	require.NoError(t, store.Put(t.Context(), stored.Response{ID: "resp_1", Object: []byte("{}"), Input: []stored.Item{{JSON: make([]byte, stored.MaxHistory+1)}}}))
	resp := r.do(t, http.MethodGet, "/v1/responses/resp_1/input_items", "")
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.Equal(t, "request_too_large", failure(t, text(t, resp)).Error.Code)
	resp = r.responding(t, asked(`"previous_response_id":"resp_1",`, `"q"`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}
