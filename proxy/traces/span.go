package traces

import (
	"encoding/hex"
	"slices"
	"time"
)

// Kinds of spans, with their numbers in OTLP.
const (
	kindInternal = 1
	kindServer   = 2
)

// maxText bounds the value of an attribute, in bytes: some come from clients.
const maxText = 256

// Span is something that took its time. It belongs to one goroutine, until End;
// Child, Context and TraceID may be called from any, and later. All methods of a
// nil *Span do nothing.
type Span struct {
	tracer     *Tracer
	trace      traceID
	id, parent spanID
	state      string
	remote     bool // the parent is a client's
	kind       uint64
	name       string
	began      time.Time
	took       time.Duration
	attributes []attribute
	events     []event
	failed     bool
}

// attribute has a text or a number.
type attribute struct {
	key, text string
	number    int64
	numeric   bool
}

type event struct {
	name  string
	after time.Duration // since the span began
}

// Child begins a span within s.
func (s *Span) Child(name string) *Span {
	if s == nil {
		return nil
	}
	return &Span{
		tracer: s.tracer, trace: s.trace, id: newSpanID(), parent: s.id, state: s.state,
		kind: kindInternal, name: name, began: time.Now(),
	}
}

// Name changes the name that the span began with.
func (s *Span) Name(name string) {
	if s != nil {
		s.name = name
	}
}

// Text sets an attribute, unless value is empty. It is cut off at 256 bytes.
func (s *Span) Text(key, value string) {
	if s != nil && value != "" {
		s.attributes = append(s.attributes, attribute{key: key, text: value[:min(len(value), maxText)]})
	}
}

// Number sets an attribute.
func (s *Span) Number(key string, value int64) {
	if s != nil {
		s.attributes = append(s.attributes, attribute{key: key, number: value, numeric: true})
	}
}

// Once notes that something has happened just now, the first time it does.
func (s *Span) Once(name string) {
	if s == nil || slices.ContainsFunc(s.events, func(e event) bool { return e.name == name }) {
		return
	}
	s.events = append(s.events, event{name, time.Since(s.began)})
}

// Fail marks the span as failed; why is from a closed set.
func (s *Span) Fail(why string) {
	if s != nil {
		s.failed = true
		s.Text("error.type", why)
	}
}

// End hands the span over to be sent. It never waits.
func (s *Span) End() {
	if s != nil {
		s.took = time.Since(s.began)
		s.tracer.take(s)
	}
}

// TraceID is empty of a nil *Span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.trace[:])
}

// Context is what those are told who go on with the trace; ok is false if there
// is none.
func (s *Span) Context() (c Context, ok bool) {
	if s == nil {
		return Context{}, false
	}
	return Context{Traceparent: "00-" + s.TraceID() + "-" + hex.EncodeToString(s.id[:]) + "-01", Tracestate: s.state}, true
}
