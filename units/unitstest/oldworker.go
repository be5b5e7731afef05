package unitstest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// OldWorker makes our own unit, a worker on a systemd without growing delays: each restart but the
// first waits for d after RestartSec=, which is 200 ms.
func (b *Bus) OldWorker(t testing.TB, name string, d time.Duration) *Unit {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.service")
	text := "[Service]\nRestartSteps=1\nRestartMaxDelaySec=" + (200*time.Millisecond + d).String() + "\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	unit := b.Systemd.Unit(name)
	unit.SetSilently(Properties{"FragmentPath": file, "TimeoutStartUSec": uint64(30_000_000)})
	b.Systemd.Own(name)
	return unit
}
