package dependencies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
)

// Every block of commands in docs/dependencies.md works unchanged, with the real Temporal.
func TestDependenciesManual(t *testing.T) { bed.BothSuites(t, testDependenciesManual) }

func testDependenciesManual(t *testing.T, suite string) {
	b := bed.NewOn(t, servers(suite), bed.RealWorker, "",
		machine.Bind{Source: requireTemporal(t), Target: temporalPath, ReadOnly: true})
	b.Start()
	const own = "/etc/systemd/system/my-temporal.service"
	doc := manual.Open(t, "docs/dependencies.md")
	require.NoError(t, b.WriteFile(own, []byte(doc.File(own)), 0o644))
	b.FollowManual(doc)
	temporal := b.Properties("codex-dependency@temporal.service", "ActiveState", "NRestarts", "UnitFileState")
	assert.Equal(t, map[string]string{"ActiveState": "active", "NRestarts": "0", "UnitFileState": "enabled"}, temporal)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "dependencies", "list"), "temporal")
	bed.DoctorFindsNothing(b)
}
