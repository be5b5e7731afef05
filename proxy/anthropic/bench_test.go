package anthropic

import (
	"io"
	"testing"
	"time"

	"codex-proxy/proxy/chat/wire"
)

// BenchmarkText is a delta of a text, to compare with BenchmarkChatText: the two are most of the events of a stream.
func BenchmarkText(b *testing.B) {
	m := builder(b, "", false)
	var w EventWriter
	b.ReportAllocs()
	for b.Loop() {
		_ = w.Write(io.Discard, m.Text("msg_1", "some words of an answer "))
	}
}

func BenchmarkChatText(b *testing.B) {
	w := wire.Answer{ID: "chatcmpl-00000000000000000000000000000000", Created: time.Now().Unix(), Model: "gpt-5"}.TextWriter(0)
	b.ReportAllocs()
	for b.Loop() {
		_ = w.WriteEvent(io.Discard, "some words of an answer ")
	}
}

// BenchmarkStream is a stream of 64 deltas.
func BenchmarkStream(b *testing.B) {
	req := request(b, "")
	b.ReportAllocs()
	for b.Loop() {
		m := NewBuilder(req, Head{ID: "msg_x", Model: "claude-x"}, "mark:")
		var w EventWriter
		for range 64 {
			_ = w.Write(io.Discard, m.Text("msg_1", "some words of an answer "))
		}
		_ = w.Write(io.Discard, m.End(Stop{Reason: StopEndTurn}, usage))
	}
}
