package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/internal/resident"
)

// LimitProcessors keeps the program to a quarter of the processors, at least one, as a turn
// costs codex a hundred times more than the program. A turn is many small steps of several
// goroutines: on processors of their own each step wakes one up, which takes a third of the
// program's time. GOMAXPROCS in the environment takes precedence.
func LimitProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 3) / 4)
	}
}

// idleHeap is about the size of Go's heap without requests, in bytes.
const idleHeap = 16 << 20

// limitHeap has the garbage of requests collected before the process is twice as large as
// the memory that they may hold. GOMEMLIMIT in the environment takes precedence.
// Source: https://go.dev/doc/gc-guide#Memory_limit
func limitHeap(requestMemory int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(idleHeap + requestMemory/4*5)
	}
}

// observeProcess registers the metrics of the process and its version.
func observeProcess(registry prometheus.Registerer, version string) {
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "codex_proxy_build_info", Help: "Always 1; the label is the version.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}

// trim gives back the memory of the start. If the kernel refuses, it stays, and nothing else is lost.
func trim(context.Context) error {
	_ = resident.Trim()
	return nil
}
