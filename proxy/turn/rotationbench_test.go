package turn_test

import (
	"fmt"
	"testing"

	"codex-proxy/proxy/api/apitest"
)

// BenchmarkRotation is one turn with a worker that answers at once: without a refusal (direct), refused and not
// rotated (refused), and rotated to an account whose worker is ready (rotated). What a rotation adds is rotated less
// the other two.
func BenchmarkRotation(b *testing.B) {
	for _, kind := range []string{"direct", "refused", "rotated"} {
		b.Run(kind, func(b *testing.B) {
			f := apitest.NewFleet("a", "b")
			if kind != "direct" {
				f.Refuses("a", apitest.UsedUp)
			}
			r := f.Rig(b, func(o *apitest.Options) {
				if kind == "refused" {
					rotationOff(o)
				}
			})
			for i := range b.N {
				b.StopTimer()
				r.Available(b, "a")
				b.StartTimer()
				r.Benchmark(b, apitest.Conversation(apitest.Streaming, fmt.Sprint(i), 1))
			}
		})
	}
}
