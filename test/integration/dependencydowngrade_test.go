package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A downgrade to a version without dependencies stops them, and an upgrade brings their units back.
func TestDependencyDowngrade(t *testing.T) {
	debs, rpms := aptGet(), rpmCommand()
	bothSuites(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { emptyBed(t, suite).downgrade(debs, "*.deb") })
		t.Run("rpm", func(t *testing.T) { emptyBed(t, suite).downgrade(rpms, "*.rpm") })
	})
}

func (b *bed) downgrade(p packager, pattern string) {
	released, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), pattern))
	require.NoError(b.t, err)
	require.Len(b.t, released, 1)
	p.install(b, p.now)
	b.startEnabled("server")
	p.install(b, released[0])
	assert.Empty(b.t, b.MustRun(b.t, "systemctl", "list-units", "--no-legend", "codex-dependency*"))
	assert.Empty(b.t, b.MustRun(b.t, "sh", "-c", "ps -e -o args= | grep '[l]istener' || true"))
	p.install(b, p.now)
	b.MustRun(b.t, "systemctl", "start", serverUnit)
}
