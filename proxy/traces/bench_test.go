package traces

import (
	"testing"
	"time"
)

// BenchmarkRequest measures the spans of one request: itself, its wait and its turn.
func BenchmarkRequest(b *testing.B) {
	for name, t := range map[string]*Tracer{
		"off": nil, "unsampled": tracer(0, nil, nil), "sampled": tracer(1, nil, nil),
	} {
		b.Run(name, func(b *testing.B) {
			h, now := header("Tracestate", "a=1"), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				s := t.Begin(h, now)
				s.Child("queue").End()
				turn := s.Child("turn")
				_, _ = turn.Context()
				turn.Once("first_token")
				turn.Text("codex.worker", "default")
				turn.Text("codex.outcome", "completed")
				turn.Number("codex.attempt", 1)
				turn.End()
				s.Name("POST /v1/chat/completions")
				for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
					s.Text(key, "value")
				}
				s.Number("http.response.status_code", 200)
				_ = s.TraceID()
				s.End()
			}
		})
	}
}
