package traces

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxState bounds a tracestate, in bytes. W3C Trace Context lets a vendor drop a longer one.
const maxState = 512

var w3c propagation.TraceContext

// Context is the place of a span in its trace: the two headers of W3C Trace Context.
type Context struct {
	Traceparent string
	Tracestate  string // empty: no tracestate
}

// headers joins repeated headers, as RFC 9110 does. Two traceparents are then none.
type headers struct{ propagation.HeaderCarrier }

func (h headers) Get(key string) string {
	return strings.Join(http.Header(h.HeaderCarrier).Values(key), ",")
}

// remote returns a context with the client's span, or an empty one if the headers name no valid span.
func remote(h http.Header) context.Context {
	ctx := w3c.Extract(context.Background(), headers{propagation.HeaderCarrier(h)})
	parent := trace.SpanContextFromContext(ctx)
	if len(parent.TraceState().String()) > maxState {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.WithTraceState(trace.TraceState{}))
	}
	return ctx
}

// Context returns the headers that make further spans children of s. Without a span, ok is false.
func (s *Span) Context() (c Context, ok bool) {
	if s == nil {
		return Context{}, false
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(s.context(), carrier)
	return Context{Traceparent: carrier.Get("traceparent"), Tracestate: carrier.Get("tracestate")}, true
}
