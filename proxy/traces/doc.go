// Package traces records what became of requests as OpenTelemetry spans and
// sends them by OTLP, if somebody wants them: a nil *Tracer, and a nil *Span,
// does nothing and costs nothing.
//
// The daemon has no network. It hands spans, in the encoding of OTLP/HTTP, over a
// unix socket to a Forwarder, which runs in a unit of its own and sends them on.
// Sources: the OTLP specification 1.10, W3C Trace Context.
package traces
