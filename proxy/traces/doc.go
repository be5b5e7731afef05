// Package traces records requests as OpenTelemetry spans with the SDK, if the settings want traces. A nil
// *Tracer and a nil *Span do nothing and cost nothing.
//
// The daemon opens no connection to a network. It posts spans, in the encoding of OTLP/HTTP, to a unix
// socket; package collector, in a program and a unit of its own, sends them on.
// Sources: the OTLP specification 1.10, W3C Trace Context.
package traces
