package api_test

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A request allocates at most what is written here, as the heap profile counts it for our own functions: the garbage
// collector's work and the daemon's memory follow it. The figures have 5 % of room for another Go; a change that
// allocates less lowers them. The least of three measurements counts, and a stream has room for a busy machine, on which
// more of its events wait for the client.
func TestAllocations(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector allocates, too")
	}
	for _, tc := range []struct {
		name, body         string
		deltas             int
		allocations, bytes int64
	}{
		{"chat", apitest.Hello(""), 1, 200, 21_000},
		{"stream", apitest.Hello(apitest.Streaming), 64, 409, 37_000},
		{"chat with a prompt of 500 KB", large(500_000, ""), 1, 247, 3_250_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rig := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, slices.Repeat([]string{"word "}, tc.deltas)...)})
			exchange := func() {
				resp, err := rig.Client.Post(rig.URL+"/v1/chat/completions", "application/json", strings.NewReader(tc.body))
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				apitest.Text(t, resp)
				require.NoError(t, resp.Body.Close())
			}
			allocations, bytes := perExchange(50, exchange)
			for range 2 {
				a, b := perExchange(50, exchange)
				allocations, bytes = min(allocations, a), min(bytes, b)
			}
			t.Logf("%d allocations, %d bytes", allocations, bytes)
			assert.LessOrEqual(t, allocations, tc.allocations+tc.allocations/20, "allocations")
			assert.LessOrEqual(t, bytes, tc.bytes+tc.bytes/20, "bytes")
		})
	}
}

// perExchange runs f n times, after some that fill pools and caches, and divides what our functions allocated meanwhile.
func perExchange(n int64, f func()) (allocations, bytes int64) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1 // each allocation
	defer func() { runtime.MemProfileRate = rate }()
	for range 10 {
		f()
	}
	before, bytesBefore := allocated()
	for range n {
		f()
	}
	after, bytesAfter := allocated()
	return (after - before) / n, (bytesAfter - bytesBefore) / n
}

// allocated reads the heap profile, which knows an allocation after the end of the next two collections.
func allocated() (allocations, bytes int64) {
	runtime.GC()
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<16)
	n, _ := runtime.MemProfile(records, true)
	for _, r := range records[:min(n, len(records))] {
		if ours(r.Stack()) {
			allocations += r.AllocObjects
			bytes += r.AllocBytes
		}
	}
	return allocations, bytes
}

// ours is whether the product allocated, and no test, client or fake worker.
func ours(stack []uintptr) (is bool) {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		pkg, _, _ := strings.Cut(strings.TrimPrefix(f.Function, "codex-proxy/"), ".")
		if pkg != f.Function && strings.HasSuffix(pkg, "test") {
			return false
		}
		is = is || strings.HasPrefix(f.Function, "codex-proxy/")
		if !more {
			return is
		}
	}
}

// raceDetector is whether this program is built with -race.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
