package turn

import "codex-proxy/proxy/traces"

// firstToken is the event of a turn at the model's first output: text, reasoning, or a
// call of a tool.
const firstToken = "first_token"

// endSpan ends the span of an attempt with the model.
func endSpan(span *traces.Span, model string, report *Report, outcome string) {
	if span == nil {
		return
	}
	span.Text("codex.worker", report.Worker)
	span.Text("codex.thread_id", report.Thread)
	span.Number("codex.attempt", int64(report.Attempts))
	span.Text("codex.outcome", outcome)
	DescribeModel(span, Chat, model, report)
	if outcome == "failed" || outcome == "lost" || outcome == "rotated" {
		span.Fail(outcome)
	}
	span.End()
}

// Chat is the operation of a turn, of any API.
const Chat = "chat"

// DescribeModel adds the model and its usage to a span, in the names of OpenTelemetry's
// conventions for generative AI 1.37.
func DescribeModel(span *traces.Span, operation, model string, report *Report) {
	if model == "" {
		return
	}
	span.Text("gen_ai.operation.name", operation)
	span.Text("gen_ai.request.model", model)
	if report.Usage != nil {
		span.Number("gen_ai.usage.input_tokens", report.Usage.InputTokens)
		span.Number("gen_ai.usage.output_tokens", report.Usage.OutputTokens)
	}
}

// endQueue ends the span of a wait for a place.
func endQueue(span *traces.Span, err error) {
	if why := refusal(err); err != nil && why != "ended" {
		span.Fail(why)
	}
	span.End()
}
