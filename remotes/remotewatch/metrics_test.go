package remotewatch

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
)

var update = flag.Bool("update", false, "write the table of metrics anew")

var someRemotes = probes.Report{Remotes: []probes.Remote{
	{Name: "build", Ready: true, Reason: probes.RemoteReady, RestartsTotal: 3, NotReady: 2 * time.Second,
		Use: &probes.RemoteUse{Owners: 2, Viewers: 1, Turns: 1, Continued: 4, GivenUp: 1, Switches: 5}},
	{Name: "docs", Reason: probes.RemoteAsleep},
}}

func TestRemoteMetrics(t *testing.T) {
	c := NewCollector(func() probes.Report { return someRemotes })
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP codex_remote_attached Clients that are attached to the remote.
# TYPE codex_remote_attached gauge
codex_remote_attached{remote="build",role="owner"} 2
codex_remote_attached{remote="build",role="viewer"} 1
# HELP codex_remote_not_ready_seconds_total Time since the proxy started in which the remote was to run, and was not ready.
# TYPE codex_remote_not_ready_seconds_total counter
codex_remote_not_ready_seconds_total{remote="build"} 2
codex_remote_not_ready_seconds_total{remote="docs"} 0
# HELP codex_remote_ready Whether the remote is ready: its unit is active.
# TYPE codex_remote_ready gauge
codex_remote_ready{remote="build"} 1
codex_remote_ready{remote="docs"} 0
# HELP codex_remote_restarts_total Automatic restarts of the remote by systemd since the proxy started.
# TYPE codex_remote_restarts_total counter
codex_remote_restarts_total{remote="build"} 3
codex_remote_restarts_total{remote="docs"} 0
# HELP codex_remote_switches_total Changes of the remote to another account, since it was made.
# TYPE codex_remote_switches_total counter
codex_remote_switches_total{remote="build"} 5
# HELP codex_remote_turns Turns of the remote that run, or wait for a person.
# TYPE codex_remote_turns gauge
codex_remote_turns{remote="build"} 1
`), "codex_remote_ready", "codex_remote_attached", "codex_remote_not_ready_seconds_total", "codex_remote_restarts_total",
		"codex_remote_switches_total", "codex_remote_turns"))
	assert.Equal(t, 2*len(probes.RemoteReasons), testutil.CollectAndCount(c, "codex_remote_state"))
	now := time.Now()
	assert.Equal(t, 60.0, elapsed(now.Add(-time.Minute), now))
	assert.Zero(t, elapsed(time.Time{}, now), "nothing waits")
}

// docs/metrics.md has a table of them, which a daemon without remotes does not have.
func TestRemoteMetricsInTheDocs(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(func() probes.Report { return someRemotes }))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]string{"remote": "the remote's name", "role": "`owner`, `viewer`"}
	for _, reason := range probes.RemoteReasons {
		values["state"] += ", `" + string(reason) + "`"
	}
	values["state"] = strings.TrimPrefix(values["state"], ", ")
	var table strings.Builder
	table.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`: "+values[l.GetName()])
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(labels, "; "), f.GetHelp())
	}
	const path = "../../docs/metrics.md"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)(-run TestRemoteMetricsInTheDocs -update -->\n).*?(<!-- end of remotes -->)`)
	require.Regexp(t, place, string(doc))
	want := place.ReplaceAllString(string(doc), "${1}"+strings.ReplaceAll(table.String(), "$", "$$")+"${2}")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(doc))
}
