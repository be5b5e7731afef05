package api

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/traces"
)

const clientSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// spans is a tracer whose spans come out of the channel, as they were sent.
func spans(t *testing.T) (*traces.Tracer, <-chan *otlp.Span) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	out := make(chan *otlp.Span, 100)
	s := http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var request collector.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(body, &request))
		assert.NotContains(t, string(body), "planted", "content in a span")
		for _, s := range request.ResourceSpans[0].ScopeSpans[0].Spans {
			out <- s
		}
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tracer := traces.New(traces.Settings{Socket: socket, Ratio: 0, Version: "test",
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- tracer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return tracer, out
}

// trace collects spans up to the request's own, by name; several of one name are
// in the order of their ends.
func trace(t *testing.T, from <-chan *otlp.Span) (request *otlp.Span, inner map[string][]*otlp.Span) {
	t.Helper()
	inner = map[string][]*otlp.Span{}
	for {
		s := received(t, from)
		if s.Kind == otlp.Span_SPAN_KIND_SERVER {
			return s, inner
		}
		inner[s.Name] = append(inner[s.Name], s)
	}
}

func attributesOf(s *otlp.Span) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
		if all[a.Key] == "" {
			all[a.Key] = a.Value.GetIntValue()
		}
	}
	return all
}

// A stream is a request that waits and has a turn with a first token, in this
// order, within the client's trace, and codex is told of it.
func TestTraceOfAStream(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	keys, secrets := withKeys(t, "alice")
	worker := &appservertest.Server{}
	r := newRig(t, worker, func(o *options) { o.Traces, o.Keys = tracer, keys })
	resp := r.chatting(t, strings.Replace(hello(streaming), "hello", "planted", 1),
		"Traceparent", clientSpan, "Tracestate", "vendor=1", "X-Request-Id", "mine", "Authorization",
		"Bearer "+secrets[0])
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, text(t, resp), "[DONE]")

	request, inner := trace(t, out)
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

	log := r.log.request(t, "mine")
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", log["trace_id"])
	assert.Equal(t, map[string]any{
		"http.request.method": "POST", "http.route": "/v1/chat/completions", "url.scheme": "http",
		"http.response.status_code": int64(200),
		"codex.request_id":          "mine", "codex.api_key_name": "alice", "codex.worker": "default",
		"codex.thread_id": log["thread_id"], "codex.outcome": "ok",
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "demo",
		"gen_ai.usage.input_tokens":  int64(log["input_tokens"].(float64)),
		"gen_ai.usage.output_tokens": int64(log["output_tokens"].(float64)),
	}, attributesOf(request))
	assert.Equal(t, int64(1), attributesOf(turn)["codex.attempt"])
	assert.Equal(t, "completed", attributesOf(turn)["codex.outcome"])
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
	tracer, out := spans(t)
	keys, secrets := withKeys(t, "alice")
	r := newRig(t, nil, func(o *options) { o.Traces, o.Keys, o.queue.Timeout = tracer, keys, 1 })
	authorized := []string{"Traceparent", clientSpan, "Authorization", "Bearer " + secrets[0]}
	r.chatting(t, hello(""), authorized...)
	request, inner := trace(t, out)
	assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, request.Status.GetCode())
	assert.Equal(t, "worker_not_ready", attributesOf(request)["error.type"])
	assert.Equal(t, "not_ready", attributesOf(inner["queue"][0])["error.type"])
	assert.Empty(t, inner["turn"])

	r.chatting(t, `{"model":"planted`, authorized...)
	request, _ = trace(t, out)
	assert.Zero(t, request.Status.GetCode(), "the client's error is none of ours")
	assert.Equal(t, "invalid_json", attributesOf(request)["codex.outcome"])

	r.chatting(t, hello(""), "Traceparent", clientSpan, "Authorization", "Bearer planted")
	request, _ = trace(t, out)
	assert.Equal(t, int64(401), attributesOf(request)["http.response.status_code"])
}

// A turn that is lost is a span of its own, and the request did not fail.
func TestTraceOfALostTurn(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	handler, _ := once(disconnect)
	r := newRig(t, &appservertest.Server{Handler: handler}, func(o *options) { o.Traces = tracer })
	require.Equal(t, http.StatusOK, r.chatting(t, hello(streaming), "Traceparent", clientSpan).StatusCode)
	request, inner := trace(t, out)
	assert.Zero(t, request.Status.GetCode())
	require.Len(t, inner["turn"], 2)
	require.Len(t, inner["queue"], 2)
	lost, again := inner["turn"][0], inner["turn"][1]
	assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, lost.Status.GetCode())
	assert.Equal(t, "lost", attributesOf(lost)["error.type"])
	assert.Empty(t, lost.Events)
	assert.Zero(t, again.Status.GetCode())
	assert.Len(t, again.Events, 1)
	assert.Equal(t, int64(2), attributesOf(again)["codex.attempt"])
}

// The responses of a WebSocket are requests within that of the connection.
func TestTraceOfASocket(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Traces = tracer })
	k := r.socket(t, "Traceparent", clientSpan)
	k.say(create("", `"planted"`))
	k.response()
	response, inner := trace(t, out)
	assert.Equal(t, "POST /v1/responses", response.Name)
	assert.Equal(t, response.SpanId, inner["turn"][0].ParentSpanId)
	require.NoError(t, k.CloseNow())
	connection, _ := trace(t, out)
	assert.Equal(t, "GET /v1/responses", connection.Name)
	assert.Equal(t, connection.SpanId, response.ParentSpanId)
	assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(connection.ParentSpanId))
	assert.Zero(t, connection.Status.GetCode())
}

// An image is fetched in a span that does not say which.
func TestTraceOfAnImage(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Traces, o.Images = tracer, &gallery{} })
	r.chatting(t, `{"model":"demo","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/planted.png"}}]}]}`,
		"Traceparent", clientSpan)
	request, inner := trace(t, out)
	require.Len(t, inner["image"], 1)
	assert.Equal(t, request.SpanId, inner["image"][0].ParentSpanId)
}

// Each of several choices is a span of its own. Probes, unknown paths and
// requests that are not sampled are none.
func TestTraceOfTurns(t *testing.T) {
	t.Parallel()
	tracer, out := spans(t)
	r := newRig(t, &appservertest.Server{}, func(o *options) { o.Traces = tracer })
	r.do(t, http.MethodGet, "/readyz", "", "Traceparent", clientSpan)
	r.do(t, http.MethodGet, "/nothing/planted", "", "Traceparent", clientSpan)
	r.chatting(t, hello(""), "Traceparent", strings.TrimSuffix(clientSpan, "1")+"0")
	r.chatting(t, hello(`"n":2,`), "Traceparent", clientSpan)
	request, inner := trace(t, out)
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
	tracer, out := spans(t)
	r := newRig(t, &appservertest.Server{}, keeping(t), func(o *options) { o.Traces = tracer })
	_, id := r.talk(t, `{"items":[{"role":"user","content":"planted"}]}`)
	for _, tc := range []struct{ path, body, operation, conversation string }{
		{"/v1/responses", asked(`"conversation":"`+id+`",`, `"planted"`), "chat", id},
		{"/v1/responses", asked(`"conversation":"planted",`, `"planted"`), "chat", ""},
		{"/v1/responses/input_tokens", asked(`"conversation":"`+id+`",`, `"planted"`), "count_tokens", id},
		{"/v1/completions", `{"model":"demo","prompt":"planted"}`, "text_completion", ""},
		{"/v1/responses/compact", asked("", `"planted"`), "chat", ""},
		{"/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"planted"}]}`, "chat", ""},
		{"/v1/messages/count_tokens", `{"model":"demo","messages":[{"role":"user","content":"planted"}]}`, "count_tokens", ""},
	} {
		text(t, r.do(t, http.MethodPost, tc.path, tc.body, "Traceparent", clientSpan))
		request, inner := trace(t, out)
		assert.Equal(t, "POST "+tc.path, request.Name)
		got := attributesOf(request)
		assert.Equal(t, tc.operation, got["gen_ai.operation.name"], tc.path)
		assert.Equal(t, "demo", got["gen_ai.request.model"])
		if tc.conversation != "" {
			assert.Equal(t, tc.conversation, got["gen_ai.conversation.id"], tc.path)
		} else {
			assert.NotContains(t, got, "gen_ai.conversation.id")
		}
		for _, turn := range inner["turn"] {
			assert.Equal(t, "chat", attributesOf(turn)["gen_ai.operation.name"])
		}
	}
	for path, conversation := range map[string]any{"/v1/conversations/" + id: id, "/v1/conversations/planted": nil} {
		text(t, r.do(t, http.MethodGet, path, "", "Traceparent", clientSpan))
		request, _ := trace(t, out)
		assert.Equal(t, "GET /v1/conversations/{conversation}", request.Name)
		got := attributesOf(request)
		assert.Equal(t, conversation, got["gen_ai.conversation.id"])
		assert.NotContains(t, got, "gen_ai.operation.name", "no model takes part")
	}
}
