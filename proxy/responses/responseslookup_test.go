package responses_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/stored"
)

// Reasoning goes back to the worker that made it, and to no other, whichever request brings it back.
func TestReasoningStaysWithItsWorker(t *testing.T) {
	given := make(chan appservertest.Request, 4)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)})
	const store = `"store":false,"include":["reasoning.encrypted_content"],`
	first := r.Whole(t, apitest.Asked(store, `"q1"`))
	brought := first.Output[0].Encrypted
	assert.Equal(t, reasoning.Origin("default")+"demo", brought)
	for _, encrypted := range []string{brought, "demo", reasoning.Origin("another") + "demo"} {
		r.Whole(t, apitest.Asked(store,
			`[{"role":"user","content":"q1"},{"type":"reasoning","summary":[],"encrypted_content":"`+encrypted+`"},{"role":"user","content":"q2"}]`))
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
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(given)}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("", `"q1"`))
	referring := r.Whole(t,
		apitest.Asked("", `[{"type":"item_reference","id":"`+first.Output[0].ID+`"},{"role":"user","content":"q2"}]`))
	k := r.Socket(t)
	k.Say(apitest.Create(`"store":false,`, `"q1"`))
	loose := k.Response().Response.ID
	k.Say(apitest.Create(`"previous_response_id":"`+loose+`",`, `"q2"`))
	continuing := k.Response().Response
	<-given
	assert.Contains(t, string((<-given).Items[0]), `"encrypted_content":"demo"`, "as the worker knows it")
	for _, id := range []string{referring.ID, continuing.ID} {
		at := "/v1/responses/" + id + "/input_items"
		list := apitest.Text(t, r.Do(t, http.MethodGet, at+"?include[]=reasoning.encrypted_content", ""))
		assert.Contains(t, list, `"encrypted_content":"`+reasoning.Origin("default")+`demo"`)
		assert.Equal(t, list, apitest.Text(t, r.Do(t, http.MethodGet, at+"?include=reasoning.encrypted_content", "")))
		list = apitest.Text(t, r.Do(t, http.MethodGet, at, ""))
		assert.Contains(t, list, `"type":"reasoning"`)
		assert.NotContains(t, list, "encrypted_content", "the request has not asked for it")
		resp := r.Do(t, http.MethodGet, at+"?include=everything", "")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "include[0]", *apitest.Failure(t, apitest.Text(t, resp)).Error.Param)
	}
}

// Who ends a request while the store is read is told why, and nobody is alarmed.
func TestLookupsThatAreEnded(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	id := r.Whole(t, apitest.Asked("", `"q"`)).ID
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Connections.Unanswered() == 0 }) // it is in flight until then
	for cause, status := range map[error]int{context.Canceled: 499, proxy.ErrDeadline: 503,
		openai.Timeout("request_timeout", "late"): 504} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for _, try := range [][2]string{{http.MethodGet, ""}, {http.MethodDelete, ""}, {http.MethodPost, "/cancel"},
			{http.MethodGet, "/input_items"}} {
			answer := httptest.NewRecorder()
			r.Handler().ServeHTTP(answer,
				httptest.NewRequestWithContext(ctx, try[0], "http://localhost/v1/responses/"+id+try[1], nil))
			assert.Equal(t, status, answer.Code, try)
		}
		for _, body := range []string{apitest.Asked(`"previous_response_id":"`+id+`",`, `"q"`),
			apitest.Asked("", `[{"type":"item_reference","id":"x"}]`)} {
			answer := &apitest.Bomb{ResponseRecorder: httptest.NewRecorder()}
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/responses",
				strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			r.Handler().ServeHTTP(answer, req)
			assert.Equal(t, status, answer.Code, body)
		}
	}
	assert.NotContains(t, r.Log.String(), `"level":"ERROR"`)
}

func TestInputItemsOfALongConversation(t *testing.T) {
	t.Parallel()
	var store stored.Store
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t, 1<<30), func(o *apitest.Options) { store = o.Responses })
	require.NoError(t, store.Put(t.Context(),
		stored.Response{ID: "resp_1", Object: []byte("{}"),
			Input: []stored.Item{{JSON: make([]byte, stored.MaxHistory+1)}}}))
	resp := r.Do(t, http.MethodGet, "/v1/responses/resp_1/input_items", "")
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	assert.Equal(t, "request_too_large", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	resp = r.Responding(t, apitest.Asked(`"previous_response_id":"resp_1",`, `"q"`))
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}
