package doctor

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
)

// survey holds the facts that several checks need. It does not change after its
// creation.
type survey struct {
	Host
	config    *config.Config // nil if it is bad
	configErr error
	workers   []worker

	dependencies    []dependent
	dependenciesErr error // of their directory
	remotes         []distant
	remotesErr      error // likewise

	version   string // of systemd
	busErr    error  // systemd does not answer
	units     map[string]units.Description
	unitErrs  map[string]error
	report    probes.Report
	reportErr error        // the daemon does not answer
	inForce   control.Keys // of the daemon; empty if unknown
}

// worker is a worker that is configured, or has a worker file.
type worker struct {
	name string
	file *codexhome.Worker // nil if it is bad
	err  error
}

func (w worker) unit() string   { return units.Worker(w.name) }
func (w worker) socket() string { return units.WorkerSocket(w.name) }

func (h Host) survey(ctx context.Context) *survey {
	s := &survey{Host: h, units: map[string]units.Description{}, unitErrs: map[string]error{}}
	s.config, s.configErr = config.Load(h.path(configFile), nil)
	for _, name := range s.workerNames() {
		w := worker{name: name}
		w.file, w.err = codexhome.Load(h.path(workerFile(name)))
		s.workers = append(s.workers, w)
	}
	limited, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	s.report, s.reportErr = h.Status(limited, s.controlSocket())
	if s.reportErr == nil {
		s.inForce, _ = h.Keys(limited, s.controlSocket()) // an error: the daemon is an older version
	}
	s.findDependencies()
	s.findRemotes()
	s.askSystemd(ctx)
	return s
}

// controlSocket returns the daemon's control socket.
func (s *survey) controlSocket() string {
	if s.config == nil {
		return s.Control
	}
	return paths.FindControlSocket(s.Root, s.config.ControlSocket)
}

// workerNames are the workers in the configuration or, if that is invalid, of the worker
// files.
func (s *survey) workerNames() []string {
	if s.config != nil {
		return s.config.Workers
	}
	files, _ := filepath.Glob(s.path(workerFile("*"))) // the pattern is good
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".toml"); units.ValidName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// unitNames are all units that the package and the configuration require.
func (s *survey) unitNames() []string {
	names := []string{targetUnit, socketUnit, proxyUnit}
	if s.config != nil && s.config.Images.Fetch {
		names = append(names, fetchSocket)
	}
	if s.config != nil && s.config.Traces.Endpoint != "" {
		names = append(names, tracesSocket)
	}
	for _, w := range s.workers {
		names = append(names, w.socket(), w.unit())
	}
	return names
}

func (s *survey) askSystemd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	if s.version, s.busErr = s.Systemd.Version(ctx); s.busErr != nil {
		return
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards the maps
	places := make(chan struct{}, atATime)
	for _, name := range slices.Concat(s.unitNames(), s.dependencyUnits(), s.remoteUnits()) {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			d, err := s.Systemd.Describe(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if s.units[name] = d; err != nil {
				s.unitErrs[name] = err
				delete(s.units, name)
			}
		})
	}
	all.Wait()
}

// standby reports whether the unit is stopped because the account of its worker is not needed.
func (s *survey) standby(unit string) bool {
	return slices.ContainsFunc(s.report.Workers, func(w probes.Worker) bool {
		return w.Unit == unit && w.Reason == probes.Standby
	})
}

// running reports whether the unit is active. It is false if its state is unknown.
func (s *survey) running(unit string) bool { return s.units[unit].Active() }
