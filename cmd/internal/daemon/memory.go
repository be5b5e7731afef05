package daemon

import (
	"os"
	"runtime/debug"
)

// ownMemory is about what Go's heap has without requests.
const ownMemory = 16 << 20

// limitMemory has the garbage of requests collected before the process is twice as
// large as what they may hold. GOMEMLIMIT in the environment takes precedence.
// Source: https://go.dev/doc/gc-guide#Memory_limit
func limitMemory(requestMemory int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(ownMemory + requestMemory/4*5)
	}
}
