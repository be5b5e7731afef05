package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastMemory is the memory limit of a broker with few requests, in bytes.
const leastMemory = 24 << 20

// limitMemory sets the memory limit of Go to an eighth more than the used memory, after each collection: many answers
// in flight are much memory for a long time, and without a limit Go holds as much again. GOMEMLIMIT in the environment
// is the upper bound.
func limitMemory() {
	most := debug.SetMemoryLimit(-1)
	use := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	var collected func(*[]byte)
	collected = func(b *[]byte) {
		metrics.Read(use)
		debug.SetMemoryLimit(limitFor(use[0].Value.Uint64()+use[1].Value.Uint64(), most))
		runtime.SetFinalizer(b, collected)
	}
	sentinel := &[]byte{}
	runtime.SetFinalizer(sentinel, collected)
	debug.SetMemoryLimit(min(leastMemory, most))
}

// limitFor is the limit for a use of so many bytes.
func limitFor(used uint64, most int64) int64 {
	const ofRuntime = 2 << 20
	return min(max(int64(used+used/8)+ofRuntime, leastMemory), most)
}
