package bed

import (
	"github.com/stretchr/testify/require"
)

// SecondWorker adds the worker b, as an operator does.
func SecondWorker(b *Bed) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile("/etc/codex-proxy/workers/b.toml", []byte(RealWorker), 0o644))
	b.MustRun(b.T, "systemctl", "enable", "--quiet", "codex-worker@b.service")
}
