package daemon

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/daemon/config"
	"codex-proxy/dependencies"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
	"codex-proxy/units/restarts"
	"codex-proxy/workers"
)

// dependencyStates applies the states of the dependencies to the workers that wait for them.
type dependencyStates struct {
	settings config.Dependencies
	workers  []string
	pool     *workers.Pool
	watch    *dependencies.Watch
}

func newDependencyStates(cfg *config.Config, pool *workers.Pool, resets *restarts.Resets,
	changed func(), logger *slog.Logger) *dependencyStates {
	n := &dependencyStates{settings: cfg.Dependencies, workers: cfg.Workers, pool: pool}
	n.watch = dependencies.New(dependencies.Settings{
		Dependencies: required(cfg.Dependencies), Resets: resets,
		OnChange: func() {
			n.assign()
			changed()
		},
		OnReason: dependencies.NewEvents(logger, watchdogOf).Changed,
	})
	for _, name := range cfg.Dependencies.Missing() {
		logger.Warn("a dependency has no file", "dependency", name,
			"required_by", strings.Join(requires.Of(cfg.Dependencies.Requires, name), ", "),
			"remedy", "add it with codex-proxy dependencies add "+name+", or remove it from requires")
	}
	return n
}

// watchdogOf is the time without a pass of its probe after which systemd kills a dependency; 0: unknown.
func watchdogOf(name string) time.Duration {
	s, err := dependencyconfig.Load(filepath.Join(paths.DependencySettings, name+".toml"))
	if err != nil {
		return 0
	}
	return s.Probe.Watchdog()
}

// required names, for each dependency, its requirers: units and the service.
func required(d config.Dependencies) (all []dependencies.Required) {
	for _, name := range d.Names() {
		r := dependencies.Required{Name: name, By: append([]string{}, requires.Of(d.Requires, name)...)}
		for _, by := range d.Requires {
			holds := by.Unit == paths.ServiceUnit && by.ReadyRequires
			r.HoldsService = r.HoldsService || holds && len(requires.Of([]requires.By{by}, name)) > 0
		}
		all = append(all, r)
	}
	return all
}

// units are the units of all dependencies.
func (n *dependencyStates) units() (all []string) {
	for _, name := range n.settings.Names() {
		all = append(all, units.Dependency(name))
	}
	return all
}

// assign sets the dependencies that each worker waits for. A dependency without which the service is not ready
// keeps turns from all workers.
func (n *dependencyStates) assign() {
	if len(n.settings.Requires) == 0 {
		return
	}
	for _, worker := range n.workers {
		_ = n.pool.SetUnmet(worker, n.unmet(worker)) // the worker is one of the pool
	}
}

func (n *dependencyStates) unmet(worker string) (u workers.Unmet) {
	var names []string
	for _, by := range n.settings.Requires {
		own := by.Unit == units.Worker(worker) && (by.ReadyRequires || by.BindRequires)
		if own || by.Unit == paths.ServiceUnit && by.ReadyRequires {
			names = append(names, by.Requires...)
		}
		if own && by.BindRequires {
			_, reason := n.watch.Unmet(by.Requires)
			u.Bound = reason != ""
		}
	}
	slices.Sort(names)
	u.Names, u.Reason = n.watch.Unmet(slices.Compact(names))
	return u
}
