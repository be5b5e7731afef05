package api_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A stream is a request that waits and has a turn with a first token, in this
// order, within the client's trace, and codex is told of it.
func TestTraceOfAStream(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	keys, secrets := apitest.WithKeys(t, "alice")
	worker := &appservertest.Server{}
	r := apitest.NewRig(t, worker, func(o *apitest.Options) { o.Traces, o.Keys = tracer, keys })
	resp := r.Chatting(t, strings.Replace(apitest.Hello(apitest.Streaming), "hello", "planted", 1),
		"Traceparent", apitest.ClientSpan, "Tracestate", "vendor=1", "X-Request-Id", "mine", "Authorization",
		"Bearer "+secrets[0])
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, apitest.Text(t, resp), "[DONE]")

	request, inner := apitest.Trace(t, out)
	require.Len(t, inner["queue"], 1)
	require.Len(t, inner["turn"], 1)
	queue, turn := inner["queue"][0], inner["turn"][0]
	assert.Equal(t, "POST /v1/chat/completions", request.Name)
	assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(request.ParentSpanId))
	for _, s := range []*otlp.Span{request, queue, turn} {
		assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(s.TraceId))
		assert.Equal(t, "vendor=1", s.TraceState)
		assert.Zero(t, s.Status.GetCode())
	}
	assert.Equal(t, request.SpanId, queue.ParentSpanId)
	assert.Equal(t, request.SpanId, turn.ParentSpanId)
	require.Len(t, turn.Events, 1)
	assert.Equal(t, "first_token", turn.Events[0].Name)
	times := []uint64{
		request.StartTimeUnixNano, queue.StartTimeUnixNano, queue.EndTimeUnixNano, turn.StartTimeUnixNano,
		turn.Events[0].TimeUnixNano, turn.EndTimeUnixNano, request.EndTimeUnixNano,
	}
	assert.IsNonDecreasing(t, times)

	log := r.Log.Request(t, "mine")
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", log["trace_id"])
	assert.Equal(t, map[string]any{
		"http.request.method": "POST", "http.route": "/v1/chat/completions", "url.scheme": "http",
		"http.response.status_code": int64(200),
		"codex.request_id":          "mine", "codex.api_key_name": "alice", "codex.worker": "default",
		"codex.thread_id": log["thread_id"], "codex.outcome": "ok",
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "demo",
		"gen_ai.usage.input_tokens":  int64(log["input_tokens"].(float64)),
		"gen_ai.usage.output_tokens": int64(log["output_tokens"].(float64)),
	}, apitest.AttributesOf(request))
	assert.Equal(t, int64(1), apitest.AttributesOf(turn)["codex.attempt"])
	assert.Equal(t, "completed", apitest.AttributesOf(turn)["codex.outcome"])
	for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
		told := worker.Traced(method)
		require.Len(t, told, 1, method)
		assert.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-"+hex.EncodeToString(turn.SpanId)+"-01",
			told[0].Traceparent)
		assert.Equal(t, "vendor=1", told[0].Tracestate)
	}
}

// What fails is marked, if it is our failure.
func TestTraceOfAFailure(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	keys, secrets := apitest.WithKeys(t, "alice")
	r := apitest.NewRig(t, nil, func(o *apitest.Options) { o.Traces, o.Keys, o.Queue.Timeout = tracer, keys, 1 })
	authorized := []string{"Traceparent", apitest.ClientSpan, "Authorization", "Bearer " + secrets[0]}
	r.Chatting(t, apitest.Hello(""), authorized...)
	request, inner := apitest.Trace(t, out)
	assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, request.Status.GetCode())
	assert.Equal(t, "worker_not_ready", apitest.AttributesOf(request)["error.type"])
	assert.Equal(t, "not_ready", apitest.AttributesOf(inner["queue"][0])["error.type"])
	assert.Empty(t, inner["turn"])

	r.Chatting(t, `{"model":"planted`, authorized...)
	request, _ = apitest.Trace(t, out)
	assert.Zero(t, request.Status.GetCode(), "the client's error is none of ours")
	assert.Equal(t, "invalid_json", apitest.AttributesOf(request)["codex.outcome"])

	r.Chatting(t, apitest.Hello(""), "Traceparent", apitest.ClientSpan, "Authorization", "Bearer planted")
	request, _ = apitest.Trace(t, out)
	assert.Equal(t, int64(401), apitest.AttributesOf(request)["http.response.status_code"])
}

// A turn that is lost is a span of its own, and the request did not fail.
func TestTraceOfALostTurn(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	handler, _ := apitest.Once(apitest.Disconnect)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler}, func(o *apitest.Options) { o.Traces = tracer })
	require.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello(apitest.Streaming), "Traceparent", apitest.ClientSpan).StatusCode)
	request, inner := apitest.Trace(t, out)
	assert.Zero(t, request.Status.GetCode())
	require.Len(t, inner["turn"], 2)
	require.Len(t, inner["queue"], 2)
	lost, again := inner["turn"][0], inner["turn"][1]
	assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, lost.Status.GetCode())
	assert.Equal(t, "lost", apitest.AttributesOf(lost)["error.type"])
	assert.Empty(t, lost.Events)
	assert.Zero(t, again.Status.GetCode())
	assert.Len(t, again.Events, 1)
	assert.Equal(t, int64(2), apitest.AttributesOf(again)["codex.attempt"])
}

// The responses of a WebSocket are requests within that of the connection.
func TestTraceOfASocket(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Traces = tracer })
	k := r.Socket(t, "Traceparent", apitest.ClientSpan)
	k.Say(apitest.Create("", `"planted"`))
	k.Response()
	response, inner := apitest.Trace(t, out)
	assert.Equal(t, "POST /v1/responses", response.Name)
	assert.Equal(t, response.SpanId, inner["turn"][0].ParentSpanId)
	require.NoError(t, k.CloseNow())
	connection, _ := apitest.Trace(t, out)
	assert.Equal(t, "GET /v1/responses", connection.Name)
	assert.Equal(t, connection.SpanId, response.ParentSpanId)
	assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(connection.ParentSpanId))
	assert.Zero(t, connection.Status.GetCode())
}

// An image is fetched in a span that does not say which.
func TestTraceOfAnImage(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Traces, o.Images = tracer, &apitest.Gallery{} })
	r.Chatting(t, `{"model":"demo","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/planted.png"}}]}]}`,
		"Traceparent", apitest.ClientSpan)
	request, inner := apitest.Trace(t, out)
	require.Len(t, inner["image"], 1)
	assert.Equal(t, request.SpanId, inner["image"][0].ParentSpanId)
}

// Each of several choices is a span of its own. Probes, unknown paths and
// requests that are not sampled are none.
func TestTraceOfTurns(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	r := apitest.NewRig(t, &appservertest.Server{}, func(o *apitest.Options) { o.Traces = tracer })
	r.Do(t, http.MethodGet, "/readyz", "", "Traceparent", apitest.ClientSpan)
	r.Do(t, http.MethodGet, "/nothing/planted", "", "Traceparent", apitest.ClientSpan)
	r.Chatting(t, apitest.Hello(""), "Traceparent", strings.TrimSuffix(apitest.ClientSpan, "1")+"0")
	r.Chatting(t, apitest.Hello(`"n":2,`), "Traceparent", apitest.ClientSpan)
	request, inner := apitest.Trace(t, out)
	assert.Equal(t, "POST /v1/chat/completions", request.Name)
	require.Len(t, inner["turn"], 2)
	assert.NotEqual(t, inner["turn"][0].SpanId, inner["turn"][1].SpanId)
	for _, turn := range inner["turn"] {
		assert.Equal(t, request.SpanId, turn.ParentSpanId)
		assert.Len(t, turn.Events, 1)
	}
	assert.Empty(t, out)
}

// A span names the operation, and the conversation if it is kept.
func TestTraceOfOperations(t *testing.T) {
	t.Parallel()
	tracer, out := apitest.Spans(t)
	r := apitest.NewRig(t, &appservertest.Server{}, apitest.Keeping(t), func(o *apitest.Options) { o.Traces = tracer })
	_, id := r.Talk(t, `{"items":[{"role":"user","content":"planted"}]}`)
	for _, tc := range []struct{ path, body, operation, conversation string }{
		{"/v1/responses", apitest.Asked(`"conversation":"`+id+`",`, `"planted"`), "chat", id},
		{"/v1/responses", apitest.Asked(`"conversation":"planted",`, `"planted"`), "chat", ""},
		{"/v1/responses/input_tokens", apitest.Asked(`"conversation":"`+id+`",`, `"planted"`), "count_tokens", id},
		{"/v1/completions", `{"model":"demo","prompt":"planted"}`, "text_completion", ""},
		{"/v1/responses/compact", apitest.Asked("", `"planted"`), "chat", ""},
		{"/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"planted"}]}`, "chat", ""},
		{"/v1/messages/count_tokens", `{"model":"demo","messages":[{"role":"user","content":"planted"}]}`, "count_tokens", ""},
	} {
		apitest.Text(t, r.Do(t, http.MethodPost, tc.path, tc.body, "Traceparent", apitest.ClientSpan))
		request, inner := apitest.Trace(t, out)
		assert.Equal(t, "POST "+tc.path, request.Name)
		got := apitest.AttributesOf(request)
		assert.Equal(t, tc.operation, got["gen_ai.operation.name"], tc.path)
		assert.Equal(t, "demo", got["gen_ai.request.model"])
		if tc.conversation != "" {
			assert.Equal(t, tc.conversation, got["gen_ai.conversation.id"], tc.path)
		} else {
			assert.NotContains(t, got, "gen_ai.conversation.id")
		}
		for _, turn := range inner["turn"] {
			assert.Equal(t, "chat", apitest.AttributesOf(turn)["gen_ai.operation.name"])
		}
	}
	for path, conversation := range map[string]any{"/v1/conversations/" + id: id, "/v1/conversations/planted": nil} {
		apitest.Text(t, r.Do(t, http.MethodGet, path, "", "Traceparent", apitest.ClientSpan))
		request, _ := apitest.Trace(t, out)
		assert.Equal(t, "GET /v1/conversations/{conversation}", request.Name)
		got := apitest.AttributesOf(request)
		assert.Equal(t, conversation, got["gen_ai.conversation.id"])
		assert.NotContains(t, got, "gen_ai.operation.name", "no model takes part")
	}
}
