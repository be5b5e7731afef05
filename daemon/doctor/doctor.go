// Package doctor checks an installation and reports its faults with their remedies: each room of the program brings
// its checks.
// It changes nothing and starts nothing, not even a stopped service.
//
// A check that could not run is never ok.
package doctor

import (
	"context"
	"path/filepath"
	"strings"

	"codex-proxy/broker/brokercheck"
	"codex-proxy/codex/copies"
	"codex-proxy/daemon/config"
	"codex-proxy/dependencies/dependenciescheck"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/proxy/proxycheck"
	"codex-proxy/remotes/here/herecheck"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotescheck"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/control"
	"codex-proxy/workers/workerscheck"
)

// Host is the machine to check. The functions may be called concurrently, and end
// with their context.
type Host struct {
	survey.Machine
	Workers      workerscheck.Host
	Dependencies dependenciescheck.Host
	// RemoteFaults are the things missing on this machine for a start of a remote, each with its remedy.
	RemoteFaults func(r *remoteconfig.Settings) []string
	Broker       brokercheck.Probe

	// Here asks the own codex of a user behind a socket for its status.
	Here herecheck.Ask

	Control string // control socket, unless config.toml names another
	Status  func(ctx context.Context, socket string) (probes.Report, error)
	Keys    func(ctx context.Context, socket string) (control.Keys, error) // the keys in force
	Get     func(ctx context.Context, url string) (status int, body []byte, err error)
	Free    func(dir string) (uint64, error) // bytes free for other users than root
}

// Examine makes every check. It returns within half a minute even if checks hang.
func Examine(ctx context.Context, h Host) checkup.Report {
	f := &survey.Facts{Machine: h.Machine}
	s := &service{Facts: f, get: h.Get}
	s.config, s.configErr = config.Load(h.Path(paths.Config), nil)
	control, sockets := h.Control, paths.WorkerSockets
	if s.config != nil {
		control, sockets = paths.FindControlSocket(h.Root, s.config.ControlSocket), s.config.SocketDir
	}
	names := s.workerNames()
	s.workers = workerscheck.Load(h.Machine, names)
	h.askDaemon(ctx, s, control)
	return survey.Examine(ctx, f, []survey.Room{
		s.room(),
		proxycheck.New(h.Machine, h.Free),
		workerscheck.New(f, h.Workers, s.workers, control, sockets),
		brokercheck.New(f, h.Broker, names),
		dependenciescheck.New(f, h.Dependencies),
		remotescheck.New(f, h.Workers, h.RemoteFaults, names),
		herecheck.New(f, h.Here),
	})
}

// askDaemon asks the daemon about its state.
func (h Host) askDaemon(ctx context.Context, s *service, control string) {
	ctx, cancel := context.WithTimeout(ctx, survey.AnswerLimit)
	defer cancel()
	if s.Report, s.ReportErr = h.Status(ctx, control); s.ReportErr == nil {
		s.inForce, _ = h.Keys(ctx, control) // an error: the daemon is an older version
	}
}

// service is the service and its settings, as its own checks see them.
type service struct {
	*survey.Facts
	get       func(ctx context.Context, url string) (status int, body []byte, err error)
	config    *config.Config // nil if it is bad
	configErr error
	workers   []workerscheck.Worker
	inForce   control.Keys // of the daemon; empty if unknown
}

// workerNames are the workers in the configuration or, if that is invalid, of the worker
// files.
func (s *service) workerNames() []string {
	if s.config != nil {
		return s.config.Workers
	}
	files, _ := filepath.Glob(s.Path(paths.WorkerSettings, "*.toml")) // the pattern is good
	var names []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".toml"); units.ValidName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// room returns the service's part of an installation.
func (s *service) room() survey.Room {
	needed := []survey.Unit{{Name: paths.TargetUnit, Needed: true}, {Name: paths.SocketUnit, Needed: true},
		{Name: paths.ServiceUnit, Needed: true, User: paths.User, Watched: true}, {Name: paths.ConsoleUnit}}
	if s.config != nil && s.config.Images.Fetch {
		needed = append(needed, survey.Unit{Name: paths.FetchSocketUnit, Needed: true})
	}
	if s.config != nil && s.config.Codex == copies.Follow {
		needed = append(needed, survey.Unit{Name: paths.CopiesSocketUnit, Needed: true})
	}
	if s.config != nil && s.config.Traces.Endpoint != "" {
		needed = append(needed, survey.Unit{Name: paths.TracesSocketUnit, Needed: true})
	}
	if s.config != nil && !s.config.Database.Address.IsZero() {
		needed = append(needed, survey.Unit{Name: paths.DatabaseSocketUnit, Needed: true})
	}
	return survey.Room{
		Units:  needed,
		Rules:  rules(),
		Access: s.namedKeys,
		Checks: []checkup.Check{
			{Name: "config", Stage: checkup.Files, Run: s.checkConfig},
			{Name: "database", Stage: checkup.Features, Run: checkDatabase(s)},
			{Name: "ports", Stage: checkup.Machine, Run: s.checkPorts},
			{Name: "console", Stage: checkup.Machine,
				Run: func(context.Context) []checkup.Finding { return checkConsole(s) }},
		},
	}
}
