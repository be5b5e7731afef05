package responses_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/openai"
)

// A count needs no worker, no model, and runs no turn.
func TestInputTokens(t *testing.T) {
	r := apitest.NewRig(t, nil)
	joke := r.Counted(t, `{"input":"Tell me a joke."}`)
	assert.Equal(t, 11, joke, "as in OpenAI's reference")
	brief := r.Counted(t, `{"input":"Tell me a joke.","instructions":"Be brief."}`)
	assert.Equal(t, joke+4+3, brief)
	assert.Equal(t, joke, r.Counted(t, `{"input":[{"role":"user","content":"Tell me a joke."}]}`))
	tool := `{"type":"function","name":"get_joke","parameters":{"type":"object","properties":{}},"strict":false}`
	tools := r.Counted(t, `{"input":"Tell me a joke.","tools":[`+tool+`]}`)
	assert.Greater(t, tools, joke+20)
	assert.Equal(t, joke, r.Counted(t, `{"input":"Tell me a joke.","tools":[`+tool+`],"tool_choice":"none"}`))
	schema := `"text":{"format":{"type":"json_schema","name":"joke","schema":{"type":"object","properties":{}},"strict":false}}`
	assert.Greater(t, r.Counted(t, `{"input":"Tell me a joke.",`+schema+`}`), joke+10)
	image := "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	assert.Equal(t, joke+1, r.Counted(t, `{"input":[{"role":"user","content":[
		{"type":"input_text","text":"Tell me a joke."},{"type":"input_image","image_url":"`+image+`"}]}]}`))
	assert.Equal(t, joke, r.Counted(t, `{"input":"Tell me a joke.","stream":true,"store":true,"temperature":1}`),
		"a count takes the body of a response")
	assert.Equal(t, joke, r.Counted(t, `{"input":"Tell me a joke.","model":"any"}`), "all models count alike")
	log := r.Log.String()
	assert.NotContains(t, log, `"stream":true`)
}

func TestInputTokensOfAConversation(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker}, apitest.Keeping(t))
	first := r.Whole(t, apitest.Asked("", `"q1"`))
	one := r.Counted(t, apitest.Asked("", `"q2"`))
	whole := r.Counted(t, apitest.Asked(`"previous_response_id":"`+first.ID+`",`, `"q2"`))
	assert.Greater(t, whole, one+8, "its question and its answer")
	assert.Equal(t, whole-6, r.Counted(t, `{"previous_response_id":"`+first.ID+`"}`))
	turns := strings.Count(r.Log.String(), `"worker":"default"`)
	assert.Equal(t, 1, turns)
	resp := r.Do(t, http.MethodGet, "/v1/responses/"+first.ID, "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestInputTokensRefused(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{}, apitest.Keeping(t))
	for body, want := range map[string][2]string{
		`{}`:                             {"input_required", "input"},
		`{"input":7}`:                    {"invalid_type", "input"},
		`{"input":"q","nonsense":1}`:     {"unknown_parameter", "nonsense"},
		`{"input":"q","generate":false}`: {"unknown_parameter", "generate"},
		`{"previous_response_id":"resp_none","input":"q"}`: {"previous_response_not_found",
			"previous_response_id"},
		`{"input":[{"type":"function_call_output","call_id":"call_1","output":""}]}`: {"tool_call_id_unknown", "input"},
	} {
		resp := r.Counting(t, body)
		answer := apitest.Text(t, resp)
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, resp.StatusCode, "%s: %s", body, answer)
		e := apitest.Failure(t, answer).Error
		assert.Equal(t, want[0], e.Code, body)
		if assert.NotNil(t, e.Param, body) {
			assert.Equal(t, want[1], *e.Param, body)
		}
	}
	assert.Equal(t, http.StatusUnsupportedMediaType,
		r.Do(t, http.MethodPost, "/v1/responses/input_tokens", `{"input":"q"}`, "Content-Type", "text/plain").StatusCode)
	resp := r.Counting(t, `{"input":"q","temperature":1,"personality":"friendly"}`)
	assert.Equal(t, "personality, temperature", resp.Header.Get("X-Codex-Ignored-Params"))
}

// A count holds memory while it counts, and it ends with its request.
func TestInputTokensEnd(t *testing.T) {
	r := apitest.NewRig(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(openai.Timeout("request_timeout", "late"))
	answer := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/responses/input_tokens",
		strings.NewReader(`{"input":"q"}`))
	req.Header.Set("Content-Type", "application/json")
	r.Handler().ServeHTTP(&apitest.Bomb{ResponseRecorder: answer}, req)
	assert.Equal(t, http.StatusGatewayTimeout, answer.Code)
	assert.Positive(t, r.Counted(t, `{"input":"`+strings.Repeat("word ", 100_000)+`"}`))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}
