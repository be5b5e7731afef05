package accounts

import (
	"testing"
	"time"

	"codex-proxy/test/await"

	"codex-proxy/test/bed"
)

// outlast waits for the ends of all requests that began before a time.
func outlast(l *bed.Ledger, t *testing.T, before time.Time) {
	t.Helper()
	await.True(t, func() bool { return len(l.Open(before)) == 0 }, 2*bed.Bound)
}
