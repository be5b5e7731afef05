package rpc

import "context"

// Trace is the trace that a request is part of: the headers of W3C Trace Context (W3cTraceContext in codex's schema).
type Trace struct {
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate,omitempty"`
}

type traceKey struct{}

// WithTrace makes the requests that are sent under the context part of a trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, &t)
}

func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}
