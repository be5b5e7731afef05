package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/openai"
	"codex-proxy/test/contract"
)

// counting asks for a count.
func (r *rig) counting(t *testing.T, body string, header ...string) *http.Response {
	t.Helper()
	return r.do(t, http.MethodPost, "/v1/responses/input_tokens", body,
		append([]string{"Content-Type", "application/json"}, header...)...)
}

// counted is the count in an answer.
func (r *rig) counted(t *testing.T, body string, header ...string) int {
	t.Helper()
	resp := r.counting(t, body, header...)
	answer := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	schema, err := contract.Compile()
	require.NoError(t, err)
	require.NoError(t, schema.Check(contract.InputTokens, []byte(answer)))
	var count openai.InputTokens
	require.NoError(t, json.Unmarshal([]byte(answer), &count))
	return int(count.InputTokens)
}

// A count needs no worker, no model, and runs no turn.
func TestInputTokens(t *testing.T) {
	r := newRig(t, nil)
	joke := r.counted(t, `{"input":"Tell me a joke."}`)
	assert.Equal(t, 11, joke, "as in OpenAI's reference")
	brief := r.counted(t, `{"input":"Tell me a joke.","instructions":"Be brief."}`)
	assert.Equal(t, joke+4+3, brief)
	assert.Equal(t, joke, r.counted(t, `{"input":[{"role":"user","content":"Tell me a joke."}]}`))
	tool := `{"type":"function","name":"get_joke","parameters":{"type":"object","properties":{}},"strict":false}`
	tools := r.counted(t, `{"input":"Tell me a joke.","tools":[`+tool+`]}`)
	assert.Greater(t, tools, joke+20)
	assert.Equal(t, joke, r.counted(t, `{"input":"Tell me a joke.","tools":[`+tool+`],"tool_choice":"none"}`))
	schema := `"text":{"format":{"type":"json_schema","name":"joke","schema":{"type":"object","properties":{}},"strict":false}}`
	assert.Greater(t, r.counted(t, `{"input":"Tell me a joke.",`+schema+`}`), joke+10)
	image := "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	assert.Equal(t, joke+1, r.counted(t, `{"input":[{"role":"user","content":[
		{"type":"input_text","text":"Tell me a joke."},{"type":"input_image","image_url":"`+image+`"}]}]}`))
	assert.Equal(t, joke, r.counted(t, `{"input":"Tell me a joke.","stream":true,"store":true,"temperature":1}`),
		"a count takes the body of a response")
	assert.Equal(t, joke, r.counted(t, `{"input":"Tell me a joke.","model":"any"}`), "all models count alike")
	log := r.log.String()
	assert.NotContains(t, log, `"stream":true`)
}

func TestInputTokensOfAConversation(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: thinker}, keeping(t))
	first := r.whole(t, asked("", `"q1"`))
	one := r.counted(t, asked("", `"q2"`))
	whole := r.counted(t, asked(`"previous_response_id":"`+first.ID+`",`, `"q2"`))
	assert.Greater(t, whole, one+8, "its question and its answer")
	assert.Equal(t, whole-6, r.counted(t, `{"previous_response_id":"`+first.ID+`"}`))
	turns := strings.Count(r.log.String(), `"worker":"default"`)
	assert.Equal(t, 1, turns)
	resp := r.do(t, http.MethodGet, "/v1/responses/"+first.ID, "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestInputTokensRefused(t *testing.T) {
	r := newRig(t, &appservertest.Server{}, keeping(t))
	for body, want := range map[string][2]string{
		`{}`:                             {"input_required", "input"},
		`{"input":7}`:                    {"invalid_type", "input"},
		`{"input":"q","nonsense":1}`:     {"unknown_parameter", "nonsense"},
		`{"input":"q","generate":false}`: {"unknown_parameter", "generate"},
		`{"previous_response_id":"resp_none","input":"q"}`: {"previous_response_not_found",
			"previous_response_id"},
		`{"input":[{"type":"function_call_output","call_id":"call_1","output":""}]}`: {"tool_call_id_unknown", "input"},
	} {
		resp := r.counting(t, body)
		answer := text(t, resp)
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, resp.StatusCode, "%s: %s", body, answer)
		e := failure(t, answer).Error
		assert.Equal(t, want[0], e.Code, body)
		if assert.NotNil(t, e.Param, body) {
			assert.Equal(t, want[1], *e.Param, body)
		}
	}
	assert.Equal(t, http.StatusUnsupportedMediaType,
		r.do(t, http.MethodPost, "/v1/responses/input_tokens", `{"input":"q"}`, "Content-Type", "text/plain").StatusCode)
	resp := r.counting(t, `{"input":"q","temperature":1,"personality":"friendly"}`)
	assert.Equal(t, "personality, temperature", resp.Header.Get("X-Codex-Ignored-Params"))
}

// A count holds memory while it counts, and it ends with its request.
func TestInputTokensEnd(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(openai.Timeout("request_timeout", "late"))
	answer := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/responses/input_tokens",
		strings.NewReader(`{"input":"q"}`))
	req.Header.Set("Content-Type", "application/json")
	r.Handler().ServeHTTP(&bomb{ResponseRecorder: answer}, req)
	assert.Equal(t, http.StatusGatewayTimeout, answer.Code)
	assert.Positive(t, r.counted(t, `{"input":"`+strings.Repeat("word ", 100_000)+`"}`))
	await(t, tick(t), func() bool { return r.Memory.Bytes() == 0 })
}
