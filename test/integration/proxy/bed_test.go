package proxy

import (
	"codex-proxy/test/bed"
)

// startShort is start with a start_timeout that a worker's start may exceed.
func startShort(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "start", "codex.target")
	b.Until("ready", bed.Ready)
}
