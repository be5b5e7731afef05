package dependencies

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
)

func TestDependencyMetrics(t *testing.T) {
	report := probes.Report{Dependencies: []probes.Dependency{
		{Name: "a", Ready: true, Reason: probes.DependencyReady, Since: time.Now().Add(-time.Hour), RestartsTotal: 3,
			RequiredBy: []string{"codex-proxy.service", "codex-worker@default.service"}},
		{Name: "b", Reason: probes.DependencyRefused, Since: time.Now().Add(-time.Hour)},
	}}
	c := NewCollector(func() probes.Report { return report })
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP codex_dependency_ready Whether the dependency is ready: its unit is active.
# TYPE codex_dependency_ready gauge
codex_dependency_ready{dependency="a"} 1
codex_dependency_ready{dependency="b"} 0
# HELP codex_dependency_required_by Units whose settings require the dependency.
# TYPE codex_dependency_required_by gauge
codex_dependency_required_by{dependency="a"} 2
codex_dependency_required_by{dependency="b"} 0
# HELP codex_dependency_restarts_total Automatic restarts of the dependency by systemd since the proxy started.
# TYPE codex_dependency_restarts_total counter
codex_dependency_restarts_total{dependency="a"} 3
codex_dependency_restarts_total{dependency="b"} 0
`), "codex_dependency_ready", "codex_dependency_required_by", "codex_dependency_restarts_total"))
	assert.Equal(t, 2*len(probes.DependencyReasons), testutil.CollectAndCount(c, "codex_dependency_state"))
	assert.InDelta(t, 3600, readySince(report.Dependencies[0], time.Now()), 60)
	assert.Zero(t, readySince(report.Dependencies[1], time.Now()), "it is not ready")
}
