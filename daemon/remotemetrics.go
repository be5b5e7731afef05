package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/probes"
)

// remoteCollector publishes the remotes of the report at the moment of the scrape. The label is bounded: a machine has
// remote.MaxFiles of them at most.
type remoteCollector struct {
	report          func() probes.Report
	state, attached *prometheus.Desc
}

var remoteMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(probes.Remote) float64
}{
	{ofRemote("codex_remote_ready", "Whether the remote is ready: its unit is active."), prometheus.GaugeValue,
		func(r probes.Remote) float64 { return metric.Bool(r.Ready) }},
	{ofRemote("codex_remote_restarts_total", "Automatic restarts of the remote by systemd since the proxy started."),
		prometheus.CounterValue, func(r probes.Remote) float64 { return float64(r.RestartsTotal) }},
	{ofRemote("codex_remote_not_ready_seconds_total",
		"Time since the proxy started in which the remote was to run, and was not ready."),
		prometheus.CounterValue, func(r probes.Remote) float64 { return r.NotReady.Seconds() }},
}

// remoteUseMetrics are absent until the remote has run once while the proxy did.
var remoteUseMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*probes.RemoteUse, time.Time) float64
}{
	{ofRemote("codex_remote_turns", "Turns of the remote that run, or wait for a person."), prometheus.GaugeValue,
		func(u *probes.RemoteUse, _ time.Time) float64 { return float64(u.Turns) }},
	{ofRemote("codex_remote_approval_waiting_seconds",
		"How long a turn has waited for a person with no owner attached; 0 if none does."), prometheus.GaugeValue,
		func(u *probes.RemoteUse, now time.Time) float64 { return elapsed(u.AloneSince, now) }},
	{ofRemote("codex_remote_turns_continued_total",
		"Turns that went on after an end of codex, since the remote was made."),
		prometheus.CounterValue, func(u *probes.RemoteUse, _ time.Time) float64 { return float64(u.Continued) }},
	{ofRemote("codex_remote_turns_given_up_total",
		"Turns that did not go on, because they had as often as continue_limit allows, since the remote was made."),
		prometheus.CounterValue, func(u *probes.RemoteUse, _ time.Time) float64 { return float64(u.GivenUp) }},
	{ofRemote("codex_remote_switches_total", "Changes of the remote to another account, since it was made."),
		prometheus.CounterValue, func(u *probes.RemoteUse, _ time.Time) float64 { return float64(u.Switches) }},
}

func ofRemote(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"remote"}, more...), nil)
}

func newRemoteCollector(report func() probes.Report) prometheus.Collector {
	return &remoteCollector{
		report: report,
		state: ofRemote("codex_remote_state", "1 for the state that the remote is in, and 0 for the others.",
			"state"),
		attached: ofRemote("codex_remote_attached", "Clients that are attached to the remote.", "role"),
	}
}

// Describe implements prometheus.Collector.
func (c *remoteCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.attached
	for _, m := range remoteMetrics {
		out <- m.desc
	}
	for _, m := range remoteUseMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *remoteCollector) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for _, r := range c.report().Remotes {
		for _, m := range remoteMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(r), r.Name)
		}
		for _, reason := range probes.RemoteReasons {
			out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, metric.Bool(r.Reason == reason),
				r.Name,
				string(reason))
		}
		if r.Use == nil {
			continue
		}
		for _, m := range remoteUseMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(r.Use, now), r.Name)
		}
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
