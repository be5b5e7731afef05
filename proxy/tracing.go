package proxy

import (
	"errors"
	"net/http"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/traces"
)

// firstToken is the event of a turn with the model's first sign of life: text,
// reasoning, or a call of a tool.
const firstToken = "first_token"

// endSpan ends the span of a request with what the log line says, in the names of
// OpenTelemetry's conventions for HTTP servers and generative AI 1.37. Of the
// content there is nothing.
func (x *exchange) endSpan(r *http.Request) {
	if x.span == nil {
		return
	}
	method := knownMethod(r.Method)
	x.span.Name(method + " " + x.route)
	x.span.Text("http.request.method", method)
	x.span.Text("http.route", x.route)
	x.span.Text("url.scheme", "http")
	x.span.Number("http.response.status_code", int64(x.status))
	x.span.Text("codex.request_id", x.id)
	x.span.Text("codex.api_key_name", x.key)
	x.span.Text("codex.worker", x.worker)
	x.span.Text("codex.thread_id", x.thread)
	x.span.Text("codex.outcome", x.outcome)
	x.describeModel(x.span)
	if x.outcome != "ok" && x.outcome != "client_gone" && (x.status >= http.StatusInternalServerError || x.status < http.StatusBadRequest) {
		x.span.Fail(x.outcome) // an error of the client is none of ours
	}
	x.span.End()
}

// describeModel says what was asked of a model, if one was named.
func (x *exchange) describeModel(span *traces.Span) {
	if x.model == "" {
		return
	}
	span.Text("gen_ai.operation.name", "chat")
	span.Text("gen_ai.request.model", x.model)
	if x.usage != nil {
		span.Number("gen_ai.usage.input_tokens", x.usage.PromptTokens)
		span.Number("gen_ai.usage.output_tokens", x.usage.CompletionTokens)
	}
}

// endTurn ends the span of a turn; the outcome is that of codex_turns_total.
func (x *exchange) endTurn(outcome string) {
	if x.turn == nil {
		return
	}
	x.turn.Text("codex.worker", x.worker)
	x.turn.Text("codex.thread_id", x.thread)
	x.turn.Number("codex.attempt", int64(x.attempts))
	x.turn.Text("codex.outcome", outcome)
	x.describeModel(x.turn)
	if outcome == "failed" || outcome == "lost" {
		x.turn.Fail(outcome)
	}
	x.turn.End()
	x.turn = nil
}

// endQueue ends the span of a wait for a place.
func endQueue(span *traces.Span, err error) {
	if why := refusal(err); err != nil && why != "ended" {
		span.Fail(why)
	}
	span.End()
}

// endImage ends the span of a fetched image. Its URL is the client's business.
func endImage(span *traces.Span, err error) {
	var known *openai.Error
	if errors.As(err, &known) {
		span.Fail(known.Code)
	}
	span.End()
}
