package dependencies

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// A downgrade to a version without dependencies stops them, and an upgrade brings their units back.
func TestDependencyDowngrade(t *testing.T) {
	debs, rpms := bed.AptGet(), bed.RpmCommand()
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		t.Run("deb", func(t *testing.T) { downgrade(bed.Empty(t, suite), debs, "*.deb") })
		t.Run("rpm", func(t *testing.T) { downgrade(bed.Empty(t, suite), rpms, "*.rpm") })
	})
}

func downgrade(b *bed.Bed, p bed.Packager, pattern string) {
	released, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), pattern))
	require.NoError(b.T, err)
	require.Len(b.T, released, 1)
	p.Install(b, p.Now)
	b.StartEnabled("server")
	p.Install(b, released[0])
	assert.Empty(b.T, b.MustRun(b.T, "systemctl", "list-units", "--no-legend", "codex-dependency*"))
	assert.Empty(b.T, b.MustRun(b.T, "sh", "-c", "ps -e -o args= | grep '[l]istener' || true"))
	p.Install(b, p.Now)
	b.MustRun(b.T, "systemctl", "start", bed.ServerUnit)
}
