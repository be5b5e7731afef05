package daemon

import (
	"os"
	"runtime"
)

// LeaveProcessors keeps the program to a quarter of the processors, at least
// one, as a turn costs codex a hundred times more than it costs us. What we do
// for a turn is done in many small steps by several goroutines: on processors of
// their own each step wakes one up, which took a third of our time. GOMAXPROCS in
// the environment has its way.
func LeaveProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 3) / 4)
	}
}
