package traces

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxText bounds the value of an attribute, in bytes: clients choose some values.
const maxText = 256

// Span is one operation of a sampled trace. One goroutine uses it until End; any goroutine may call
// Child, Context and TraceID, also after End. All methods of a nil *Span do nothing, at no cost.
type Span struct {
	tracer trace.Tracer
	span   trace.Span
	// attributes are set together at End: the SDK takes a lock and a copy for each call.
	attributes []attribute.KeyValue
	events     []string // their names
}

// Child begins a span within s.
func (s *Span) Child(name string) *Span {
	if s == nil {
		return nil
	}
	return s.begin(name)
}

func (s *Span) begin(name string, options ...trace.SpanStartOption) *Span {
	_, span := s.tracer.Start(s.context(), name, options...)
	return &Span{tracer: s.tracer, span: span}
}

func (s *Span) context() context.Context {
	return trace.ContextWithSpan(context.Background(), s.span)
}

// Name replaces the name of the span.
func (s *Span) Name(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Text sets an attribute, unless value is empty. It cuts value at 256 bytes and removes invalid UTF-8,
// for which a collector refuses the whole batch. The limit of the SDK counts characters and removes
// invalid UTF-8 only from longer values.
func (s *Span) Text(key, value string) {
	if s != nil && value != "" {
		value = strings.ToValidUTF8(value[:min(len(value), maxText)], "")
		s.attributes = append(s.attributes, attribute.String(key, value))
	}
}

// Number sets an attribute.
func (s *Span) Number(key string, value int64) {
	if s != nil {
		s.attributes = append(s.attributes, attribute.Int64(key, value))
	}
}

// Once records an event at its first occurrence.
func (s *Span) Once(name string) {
	if s == nil || slices.Contains(s.events, name) {
		return
	}
	s.events = append(s.events, name)
	s.span.AddEvent(name, trace.WithTimestamp(time.Now()))
}

// Fail marks the span as failed; why is one of a closed set.
func (s *Span) Fail(why string) {
	if s != nil {
		s.span.SetStatus(codes.Error, "")
		s.Text("error.type", why)
	}
}

// End queues the span for sending. It never waits.
func (s *Span) End() {
	if s != nil {
		s.span.SetAttributes(s.attributes...)
		s.span.End()
	}
}

// TraceID returns 32 hexadecimal digits, or an empty string for a nil *Span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}
