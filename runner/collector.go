package runner

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/metric"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/disk"
	"codex-proxy/runner/store"
)

// collectBound bounds the wait of a scrape for the store.
const collectBound = 5 * time.Second

// collector collects the present state at each scrape.
type collector struct{ *Runner }

// gauge is a metric of the state at one time.
type gauge struct {
	desc  *prometheus.Desc
	value func(*moment) float64
}

// moment has the values of the gauges.
type moment struct {
	runner *Runner
	tally  store.Tally
	disk   disk.Space
	ready  bool
}

var gauges = []gauge{
	{describe("codex_runner_ready", "Whether the service can run commands, as `codex-runner status` says."),
		func(m *moment) float64 { return metric.Bool(m.ready) }},
	{describe("codex_runner_start_timestamp_seconds", "When this process of the service began."),
		func(m *moment) float64 { return seconds(m.runner.since) }},
	{describe("codex_runner_collected_timestamp_seconds",
		"When these metrics were collected: in the textfile every 15 seconds, unless the service hangs."),
		func(*moment) float64 { return seconds(time.Now()) }},
	{describe("codex_runner_max_sessions", "Commands that may run at the same time."),
		func(m *moment) float64 { return float64(m.runner.MaxSessions) }},
	{describe("codex_runner_max_queued", "Commands that may wait."),
		func(m *moment) float64 { return float64(m.runner.MaxQueued) }},
	{describe("codex_runner_workspaces", "Workspaces that are kept."),
		func(m *moment) float64 { return float64(m.tally.Workspaces) }},
	{describe("codex_runner_workspaces_leased", "Workspaces that belong to a session."),
		func(m *moment) float64 { return float64(m.tally.Leased) }},
	{describe("codex_runner_workspaces_bytes", "Size of the workspaces that no session has."),
		func(m *moment) float64 { return float64(m.tally.WorkspaceBytes) }},
	{describe("codex_runner_repositories", "Repositories that have a mirror."),
		func(m *moment) float64 { return float64(m.tally.Repositories) }},
	{describe("codex_runner_repositories_bytes", "Size of the mirrors of repositories."),
		func(m *moment) float64 { return float64(m.tally.RepositoryBytes) }},
	{describe("codex_runner_environments", "Environments that are ready."),
		func(m *moment) float64 { return float64(m.tally.Environments) }},
	{describe("codex_runner_environments_bytes", "Size of the environments."),
		func(m *moment) float64 { return float64(m.tally.EnvironmentBytes) }},
	{describe("codex_runner_snapshots", "Snapshots of set-ups that sessions can begin with."),
		func(m *moment) float64 { return float64(m.tally.Snapshots) }},
	{describe("codex_runner_snapshots_bytes", "Size of the snapshots. A session adds what it changes alone, where overlays work."),
		func(m *moment) float64 { return float64(m.tally.SnapshotBytes) }},
	{describe("codex_runner_disk_size_bytes", "Size of the file system of /var/lib/codex-runner."),
		func(m *moment) float64 { return float64(m.disk.Size) }},
	{describe("codex_runner_disk_free_bytes", "What is free there for the service."),
		func(m *moment) float64 { return float64(m.disk.Free) }},
}

var (
	infoDesc     = describe("codex_runner_info", "Always 1; the label is the version.", "version")
	sessionsDesc = describe("codex_runner_sessions", "Sessions in the store, by state.", "state")
	commandsDesc = describe("codex_runner_commands", "Commands that have not ended, by state.", "state")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges {
		out <- g.desc
	}
	out <- infoDesc
	out <- sessionsDesc
	out <- commandsDesc
}

// Collect implements prometheus.Collector. If it cannot read a fact, the whole scrape fails: no value is better than an
// old one.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectBound)
	defer cancel()
	tally, err := c.Store.Tally(ctx)
	m := &moment{runner: c.Runner, tally: tally, ready: c.Ready() == nil}
	if err == nil {
		m.disk, err = disk.SpaceOf(c.StateDir)
	}
	if err != nil {
		out <- prometheus.NewInvalidMetric(sessionsDesc, err)
		return
	}
	out <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, c.Version)
	for _, g := range gauges {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(m))
	}
	for _, state := range []wire.SessionState{wire.SessionActive, wire.SessionIdle, wire.SessionClosed} {
		out <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(tally.Sessions[state]),
			string(state))
	}
	for _, state := range []wire.CommandState{
		wire.CommandAwaitingStdin, wire.CommandQueued, wire.CommandStarting, wire.CommandRunning, wire.CommandHeld,
	} {
		out <- prometheus.MustNewConstMetric(commandsDesc, prometheus.GaugeValue, float64(tally.Commands[state]),
			string(state))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
