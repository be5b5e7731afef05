package daemon

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/daemon/config"
	"codex-proxy/dependencies"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/units/restarts"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// needing is a pool of the workers a and b, and what they and the service require.
func needing(t *testing.T, d config.Dependencies) (*dependencyStates, *workers.Pool, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	settings := workers.Settings{OnChange: func() {}, Logger: logger}
	pool := workers.NewPool([]*workers.Worker{workers.New("a", "/nowhere", settings), workers.New("b", "/nowhere", settings)},
		dispatch.Queue{Limit: 1, Timeout: time.Second, ReadyTimeout: time.Second}, func() {})
	n := newDependencyStates(&config.Config{Workers: []string{"a", "b"}, Dependencies: d}, pool, restarts.NewResets(time.Hour, nil, nil), func() {}, logger)
	n.assign()
	return n, pool, &log
}

func by(unit string, bind, ready bool, names ...string) requires.By {
	return requires.By{Unit: unit,
		Settings: requires.Settings{Requires: names, BindRequires: bind, ReadyRequires: ready}}
}

func TestRequired(t *testing.T) {
	assert.Equal(t, []dependencies.Required{
		{Name: "cache", By: []string{"codex-worker@a.service"}},
		{Name: "db", By: []string{"codex-proxy.service", "codex-worker@a.service"}, HoldsService: true},
		{Name: "spare", By: []string{}},
	}, required(config.Dependencies{Files: []string{"db", "spare"}, Requires: []requires.By{
		by("codex-proxy.service", false, true, "db"), by("codex-worker@a.service", false, true, "db", "cache"),
	}}))
}

// A worker waits for what its own file makes it wait for, and for what the service waits for.
func TestUnmetOfWorkers(t *testing.T) {
	n, pool, log := needing(t, config.Dependencies{Files: []string{"db"}, Requires: []requires.By{
		by("codex-proxy.service", false, false, "log"),
		by("codex-worker@a.service", false, true, "db", "cache"), by("codex-worker@b.service", false, false, "db"),
	}})
	assert.Equal(t, []string{"codex-dependency@cache.service", "codex-dependency@db.service",
		"codex-dependency@log.service"}, n.units())
	unmet := func() (all [][]string) {
		for _, w := range pool.Snapshot().Workers {
			all = append(all, w.Unmet)
		}
		return all
	}
	assert.Equal(t, [][]string{{"cache", "db"}, nil}, unmet(), "systemd has not reported them")
	n.watch.UnitChanged(units.State{Unit: units.Dependency("db"), ActiveState: "active"})
	assert.Equal(t, [][]string{{"cache"}, nil}, unmet())
	n.watch.UnitChanged(units.State{Unit: units.Dependency("cache"), ActiveState: "active"})
	assert.Equal(t, [][]string{nil, nil}, unmet())
	assert.Contains(t, log.String(), "dependency=cache required_by=codex-worker@a.service")
	assert.Contains(t, log.String(), "codex-proxy dependencies add cache")
	assert.NotContains(t, log.String(), "dependency=db")
}

func TestServiceNeeds(t *testing.T) {
	n, pool, _ := needing(t, config.Dependencies{Files: []string{"db"}, Requires: []requires.By{
		by("codex-proxy.service", false, true, "db"), by("codex-worker@a.service", true, false, "db"),
	}})
	n.watch.UnitChanged(units.State{Unit: units.Dependency("db"), ActiveState: "inactive"})
	snap := pool.Snapshot()
	snap.Dependencies = n.watch.Report()
	reason, details := probes.ReadinessOf(snap)
	assert.Equal(t, probes.DependencyNotReady, reason)
	assert.Contains(t, details, "dependency db: stopped; systemctl start codex-dependency@db.service")
	assert.Equal(t, workers.Unmet{Names: []string{"db"}, Reason: probes.DependencyStopped, Bound: true}, n.unmet("a"))
	assert.Equal(t, workers.Unmet{Names: []string{"db"}, Reason: probes.DependencyStopped}, n.unmet("b"))
}

func TestNoNeeds(t *testing.T) {
	n, pool, log := needing(t, config.Dependencies{})
	assert.Empty(t, n.units(), "nothing more is asked over D-Bus")
	assert.Nil(t, n.watch.Report())
	assert.Empty(t, pool.Snapshot().Workers[0].Unmet)
	assert.Empty(t, log.String())
}
