package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNeighbours are there, and run when a test says so and not before.
func TestNeighbours(t *testing.T) {
	b := bootBed(t, neighbours())
	for _, unit := range []string{"prometheus", "prometheus-node-exporter", "haproxy", "nginx", "caddy"} {
		out, _, err := b.Run(t.Context(), "systemctl", "show", "--value", "-p", "LoadState", "-p", "ActiveState", unit)
		require.NoError(t, err)
		assert.Equal(t, "loaded\ninactive\n", out, unit)
	}
}

// Node exporter's directory is ours to write in, whichever of the two packages is
// installed first, and given back when ours is removed.
func TestTextfileDirectory(t *testing.T) {
	const dir = "/var/lib/prometheus/node-exporter"
	b := bootBed(t, neighbours())
	rights := func() string { return b.MustRun(t, "stat", "-c", "%U:%G %a", dir) }
	before := rights()
	b.install(realWorker, "")
	assert.Equal(t, "root:codex-proxy 775\n", rights())
	b.MustRun(t, "dpkg", "--remove", "codex-proxy")
	assert.Equal(t, before, rights())

	b.MustRun(t, "rmdir", dir)
	b.install(realWorker, "")
	b.start()
	b.MustRun(t, "mkdir", dir)
	b.MustRun(t, "dpkg-trigger", "--no-await", dir) // as dpkg does for a package that has the directory
	b.MustRun(t, "dpkg", "--triggers-only", "--pending")
	assert.Equal(t, "root:codex-proxy 775\n", rights())
	require.Eventually(t, func() bool {
		_, err := b.ReadFile(textfile)
		return err == nil
	}, bound, 20*time.Millisecond, "the daemon was not restarted")
	pid := b.show(proxyUnit, "MainPID")
	b.MustRun(t, "dpkg-trigger", "--no-await", dir)
	b.MustRun(t, "dpkg", "--triggers-only", "--pending")
	assert.Equal(t, pid, b.show(proxyUnit, "MainPID"), "the directory was ours already")
}
