package daemon

import (
	"codex-proxy/daemon/recent"
	"codex-proxy/workers"
)

// newRecent has the last requests and numbers of this process.
func newRecent(pool *workers.Pool, changes *changes) *recent.Recent {
	return recent.New(recent.Settings{
		Look: func() recent.Gauges { return recent.GaugesOf(pool.Snapshot()) },
		Restarts: func() (n uint64) {
			for _, w := range pool.Snapshot().Workers {
				n += w.RestartsTotal
			}
			return n
		},
		Changed: changes.control.Changed,
	})
}
