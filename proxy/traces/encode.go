package traces

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields are those of opentelemetry/proto/trace/v1/trace.proto
// and its neighbours, which never change.

// encode makes an ExportTraceServiceRequest.
func encode(version, host string, batch []*Span) []byte {
	var scope, spans []byte
	scope = text(scope, 1, "codex-proxy")
	scope = text(scope, 2, version)
	spans = nested(spans, 1, scope)
	for _, s := range batch {
		spans = nested(spans, 2, s.encode())
	}
	resource := nested(nil, 1, resource(version, host))
	return nested(nil, 1, nested(resource, 2, spans))
}

func resource(version, host string) (b []byte) {
	for _, a := range []attribute{{key: "service.name", text: "codex-proxy"}, {key: "service.version", text: version}, {key: "host.name", text: host}} {
		if a.text != "" {
			b = nested(b, 1, a.encode())
		}
	}
	return b
}

// Bits of Span.flags beyond those of the traceparent.
const (
	parentKnown  = 1 << 8
	parentRemote = 1 << 9
	statusError  = 2
)

func (s *Span) encode() (b []byte) {
	b = nested(b, 1, s.trace[:])
	b = nested(b, 2, s.id[:])
	b = text(b, 3, s.state)
	if s.parent != (spanID{}) {
		b = nested(b, 4, s.parent[:])
	}
	b = text(b, 5, s.name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), s.kind)
	b = moment(b, 7, s.began)
	b = moment(b, 8, s.began.Add(s.took))
	for _, a := range s.attributes {
		b = nested(b, 9, a.encode())
	}
	for _, e := range s.events {
		b = nested(b, 11, text(moment(nil, 1, s.began.Add(e.after)), 2, e.name))
	}
	if s.failed {
		b = nested(b, 15, protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), statusError))
	}
	flags := uint32(sampled | parentKnown)
	if s.remote {
		flags |= parentRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, 16, protowire.Fixed32Type), flags)
}

// encode makes a KeyValue.
func (a attribute) encode() []byte {
	value := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(a.number))
	if !a.numeric {
		value = text(nil, 1, a.text)
	}
	return nested(text(nil, 1, a.key), 2, value)
}

func nested(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

// text leaves out what is not UTF-8: a collector would refuse the whole batch.
func text(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), strings.ToValidUTF8(value, ""))
}

func moment(b []byte, number protowire.Number, at time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), uint64(at.UnixNano()))
}
