package remotewatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// collector publishes the remotes of the report at the moment of the scrape. The label is bounded: a machine has
// remote.MaxFiles of them at most.
type collector struct {
	report          func() probes.Report
	state, attached *prometheus.Desc
}

var metrics = metric.Rows[probes.Remote]{
	metric.Gauge(ofRemote("codex_remote_ready", "Whether the remote is ready: its unit is active."),
		func(r probes.Remote) float64 { return metric.Bool(r.Ready) }),
	metric.Counter(ofRemote("codex_remote_restarts_total",
		"Automatic restarts of the remote by systemd since the proxy started."),
		func(r probes.Remote) float64 { return float64(r.RestartsTotal) }),
	metric.Counter(ofRemote("codex_remote_not_ready_seconds_total",
		"Time since the proxy started in which the remote was to run, and was not ready."),
		func(r probes.Remote) float64 { return r.NotReady.Seconds() }),
}

// useMetrics are absent until the remote has run once while the proxy did.
var useMetrics = metric.Rows[*probes.RemoteUse]{
	metric.Gauge(ofRemote("codex_remote_turns", "Turns of the remote that run, or wait for a person."),
		func(u *probes.RemoteUse) float64 { return float64(u.Turns) }),
	metric.Gauge(ofRemote("codex_remote_approval_waiting_seconds",
		"How long a turn has waited for a person with no owner attached; 0 if none does."),
		func(u *probes.RemoteUse) float64 { return elapsed(u.AloneSince, time.Now()) }),
	metric.Counter(ofRemote("codex_remote_turns_continued_total",
		"Turns that went on after an end of codex, since the remote was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.Continued) }),
	metric.Counter(ofRemote("codex_remote_turns_given_up_total",
		"Turns that did not go on, because they had as often as continue_limit allows, since the remote was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.GivenUp) }),
	metric.Counter(ofRemote("codex_remote_switches_total",
		"Changes of the remote to another account, since it was made."),
		func(u *probes.RemoteUse) float64 { return float64(u.Switches) }),
	metric.Counter(ofRemote("codex_remote_commands_total",
		"Commands that the hands of the remote have executed since its main process started; 0 without hands."),
		func(u *probes.RemoteUse) float64 { return float64(u.Commands) }),
}

func ofRemote(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"remote"}, more...), nil)
}

// NewCollector returns the metrics of the remotes of the report.
func NewCollector(report func() probes.Report) prometheus.Collector {
	return &collector{
		report: report,
		state: ofRemote("codex_remote_state", "1 for the state that the remote is in, and 0 for the others.",
			"state"),
		attached: ofRemote("codex_remote_attached", "Clients that are attached to the remote.", "role"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.attached
	metrics.Describe(out)
	useMetrics.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c.report().Remotes {
		metrics.Collect(out, r, r.Name)
		metric.CollectState(out, c.state, r.Name, r.Reason, probes.RemoteReasons)
		if r.Use == nil {
			continue
		}
		useMetrics.Collect(out, r.Use, r.Name)
		out <- prometheus.MustNewConstMetric(c.attached, prometheus.GaugeValue, float64(r.Use.Owners), r.Name, "owner")
		out <- prometheus.MustNewConstMetric(c.attached, prometheus.GaugeValue, float64(r.Use.Viewers), r.Name,
			"viewer")
	}
}

// elapsed is the time since t in seconds; 0 if there is no t.
func elapsed(t, now time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, now.Sub(t).Seconds())
}
