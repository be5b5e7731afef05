package shared

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/proxy/stored"
	"codex-proxy/test/postgrestest"
)

// BenchmarkPut compares a response that the file stores with one that the database stores: the processor time of this
// process, which in the latter has the relay, too.
func BenchmarkPut(b *testing.B) {
	f := newFleet(b, postgrestest.Start(b), stored.Limits{Retention: time.Hour, Bytes: 1 << 34, Count: 1 << 30})
	host := f.host()
	for name, store := range map[string]stored.Store{"file": host.file, "database": host} {
		b.Run(name, func(b *testing.B) {
			before := used(b)
			for i := range b.N {
				r := response(fmt.Sprintf("%s-%d-%d", name, b.N, i), "")
				r.Object = []byte(strings.Repeat("x", 4<<10))
				r.Input = append(r.Input, stored.Item{ID: "more", JSON: json.RawMessage(`"more"`)})
				require.NoError(b, store.Put(b.Context(), r))
			}
			b.ReportMetric(float64((used(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
