package proxy

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"codex-proxy/proxy/turn"
)

// levelOf keeps probes and scrapes out of the journal, and raises our own faults.
func levelOf(x *Exchange) slog.Level {
	switch {
	case x.Status == http.StatusInternalServerError:
		return slog.LevelError
	case x.Status > http.StatusInternalServerError && x.Model != "":
		return slog.LevelWarn
	case strings.HasPrefix(x.Route, "/v1/"), x.Route == "other":
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// attributes are the fields of the request line. They have no content, except the quotes of the model endpoint in the
// error of a failed turn.
func attributes(method string, x *Exchange) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", x.ID), slog.String("method", method), slog.String("route", x.Route),
		slog.Int("status", x.Status))
	return append(attrs, common(x)...)
}

// common are the fields that a background response has, too.
func common(x *Exchange) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("outcome", x.Outcome), slog.Float64("duration_ms", milliseconds(time.Since(x.Began))))
	for _, f := range []struct{ name, value string }{
		{"key", x.Key.Name}, {"model", x.Model}, {"worker", x.Turn.Worker}, {"thread_id", x.Turn.Thread},
		{"trace_id", x.Span.TraceID()}, {"detail", x.Detail},
	} {
		if f.value != "" {
			attrs = append(attrs, slog.String(f.name, f.value))
		}
	}
	if x.Model != "" {
		attrs = append(attrs, slog.Bool("stream", x.Stream))
	}
	if x.Model != "" && x.Turn.Queued >= time.Millisecond {
		attrs = append(attrs, slog.Float64("queued_ms", milliseconds(x.Turn.Queued)))
	}
	if x.Turn.Attempts > 1 {
		attrs = append(attrs, slog.Int("attempts", x.Turn.Attempts))
	}
	if !x.FirstByte.IsZero() {
		attrs = append(attrs, slog.Float64("ttfb_ms", milliseconds(x.FirstByte.Sub(x.Began))))
	}
	if u := x.Turn.Usage; u != nil {
		attrs = append(attrs, slog.Int64("input_tokens", u.InputTokens), slog.Int64("output_tokens", u.OutputTokens))
	}
	return attrs
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The operations that are no chats.
const (
	CompleteText = "text_completion"
	CountTokens  = "count_tokens" // OpenTelemetry has no word for it
)

// endSpan ends the span of a request with the values of the log line, in the names of
// OpenTelemetry's conventions for HTTP servers and generative AI 1.37.
func endSpan(method string, x *Exchange) {
	if x.Span == nil {
		return
	}
	method = knownMethod(method)
	x.Span.Name(method + " " + x.Route)
	x.Span.Text("http.request.method", method)
	x.Span.Text("http.route", x.Route)
	x.Span.Text("url.scheme", "http")
	x.Span.Number("http.response.status_code", int64(x.Status))
	x.Span.Text("codex.request_id", x.ID)
	x.Span.Text("codex.api_key_name", x.Key.Name)
	x.Span.Text("codex.worker", x.Turn.Worker)
	x.Span.Text("codex.thread_id", x.Turn.Thread)
	x.Span.Text("codex.outcome", x.Outcome)
	x.Span.Text("gen_ai.conversation.id", x.Conversation)
	turn.DescribeModel(x.Span, cmp.Or(x.Operation, turn.Chat), x.Model, &x.Turn)
	failed := x.Status >= http.StatusInternalServerError || x.Status < http.StatusBadRequest
	if x.Outcome != "ok" && x.Outcome != "client_gone" && failed { // not for an error of the client
		x.Span.Fail(x.Outcome)
	}
	x.Span.End()
}
