package jsonscan_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/codex/jsonscan"
)

// delta is the most frequent message of codex.
var delta = []byte(`{"method":"item/agentMessage/delta","params":{"threadId":"0199a213-81c0-7800-8aa1-bbab2a035a53",` +
	`"turnId":"0199a213-81c0-7800-8aa1-bbab2a035a54","itemId":"msg_0123456789abcdef","delta":" It is a fine day."}}`)

var wanted = []string{"threadId", "turnId", "itemId", "delta"}

func BenchmarkDelta(b *testing.B) {
	b.ReportAllocs()
	fields := make([][]byte, len(wanted))
	for b.Loop() {
		o := jsonscan.Open(delta)
		for name, ok := o.Name(); ok; name, ok = o.Name() {
			if string(name) == "params" {
				o.Fields(wanted, fields)
			} else {
				o.Value()
			}
		}
	}
}

// BenchmarkDeltaJSONText does the same with the decoder of encoding/json/v2.
func BenchmarkDeltaJSONText(b *testing.B) {
	b.ReportAllocs()
	reader, decoder, fields := bytes.NewReader(nil), new(jsontext.Decoder), make([]jsontext.Value, len(wanted))
	for b.Loop() {
		reader.Reset(delta)
		decoder.Reset(reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		members(decoder, func(name string) {
			if name != "params" {
				_ = decoder.SkipValue()
				return
			}
			members(decoder, func(name string) {
				value, _ := decoder.ReadValue()
				if i := slices.Index(wanted, name); i >= 0 {
					fields[i] = value
				}
			})
		})
	}
}

// members calls each with the names of an object. It reads the value.
func members(d *jsontext.Decoder, each func(name string)) {
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, _ := d.ReadToken()
		each(name.String())
	}
	_, _ = d.ReadToken()
}
