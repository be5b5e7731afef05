package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// TestNeighbours asserts that the programs beside the service are installed, and run
// only when a test starts them.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	b := bed.Boot(t, bed.Neighbours())
	for _, unit := range []string{"prometheus", "prometheus-node-exporter", "haproxy", "nginx", "caddy"} {
		out, _, err := b.Run(t.Context(), "systemctl", "show", "--value", "-p", "LoadState", "-p", "ActiveState", unit)
		require.NoError(t, err)
		assert.Equal(t, "loaded\ninactive\n", out, unit)
	}
}

// The service may write to node exporter's directory, whichever of the two packages is
// installed first, and may no more when its package is removed.
func TestTextfileDirectory(t *testing.T) {
	t.Parallel()
	const dir = "/var/lib/prometheus/node-exporter"
	b := bed.Boot(t, bed.Neighbours())
	rights := func() string { return b.MustRun(t, "stat", "-c", "%U:%G %a", dir) }
	before := rights()
	b.Install(bed.RealWorker, "")
	assert.Equal(t, "root:codex-proxy 775\n", rights())
	b.MustRun(t, "dpkg", "--remove", "codex-proxy")
	assert.Equal(t, before, rights())

	b.MustRun(t, "rmdir", dir)
	b.Install(bed.RealWorker, "")
	b.Start()
	b.MustRun(t, "mkdir", dir)
	b.MustRun(t, "dpkg-trigger", "--no-await", dir) // as dpkg does for a package that has the directory
	b.MustRun(t, "dpkg", "--triggers-only", "--pending")
	assert.Equal(t, "root:codex-proxy 775\n", rights())
	await.True(t, func() bool {
		_, err := b.ReadFile(textfile)
		return err == nil
	}, bed.Bound, "the daemon was not restarted")
	pid := b.Properties(bed.ProxyUnit, "MainPID")
	trigger := func() {
		b.MustRun(t, "dpkg-trigger", "--no-await", dir)
		b.MustRun(t, "dpkg", "--triggers-only", "--pending")
	}
	trigger()
	assert.Equal(t, pid, b.Properties(bed.ProxyUnit, "MainPID"), "the directory was ours already")
	b.MustRun(t, "chgrp", "root", dir)
	b.AppendTo(bed.ConfigFile, "keepaliv = \"1s\"\n")
	trigger()
	assert.Equal(t, "root:codex-proxy 775\n", rights())
	assert.Equal(t, pid, b.Properties(bed.ProxyUnit, "MainPID"), "a restart would have ended it")
	b.MustRun(t, "sh", "-ec", "chgrp root "+dir+"; mv "+dir+" /opt/elsewhere; ln -s /opt/elsewhere "+dir)
	trigger()
	assert.Equal(t, "root:root 775\n", b.MustRun(t, "stat", "-c", "%U:%G %a", "/opt/elsewhere"), "a link was followed")
}
