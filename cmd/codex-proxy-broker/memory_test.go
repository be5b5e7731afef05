package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/await"
)

func TestLimitFor(t *testing.T) {
	assert.EqualValues(t, leastMemory, limitFor(1<<20, math.MaxInt64))
	assert.EqualValues(t, 47<<20, limitFor(40<<20, math.MaxInt64))
	assert.EqualValues(t, 30<<20, limitFor(40<<20, 30<<20), "GOMEMLIMIT")
}

// The limit follows what is in use, after each collection.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(800 << 20)
	defer debug.SetMemoryLimit(before)
	limitMemory()
	assert.EqualValues(t, leastMemory, debug.SetMemoryLimit(-1))
	for _, size := range []int{100 << 20, 200 << 20} {
		held := make([]byte, size)
		await.True(t, func() bool {
			runtime.GC()
			return debug.SetMemoryLimit(-1) > int64(size)
		}, time.Minute)
		runtime.KeepAlive(held)
	}
	await.True(t, func() bool {
		runtime.GC()
		return debug.SetMemoryLimit(-1) == leastMemory
	}, time.Minute)
}
