// Package workerscheck checks the workers of an installation: codex, its sandbox and logins, the sockets, and the
// report of the service on its workers and their accounts.
package workerscheck

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/copies"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/sharing"
)

// Host is the part of the machine that only these checks use.
type Host struct {
	// Codex is the program of a unit: the copy that it has chosen, or that of its settings.
	Codex  func(unit string, w *codexhome.Worker, env []string, as reach.Account) (Codex, error)
	Copies func() copies.Report
	// Command makes the codex behind a worker's socket run a command as if the model had asked for it.
	Command func(ctx context.Context, socket string, command []string) (appserver.CommandResult, error)
	// Accounts are the daemon's state of the accounts.
	Accounts func(ctx context.Context, socket string) ([]accounts.Account, error)
}

// Codex is the program of one worker. See codexhome.Program.
type Codex interface {
	Path() string
	Version(ctx context.Context) (string, error)
	Sandbox(ctx context.Context) error
}

// Worker is a worker that is configured, or has a worker file.
type Worker struct {
	Name string
	Host string            // the worker that serves its account; empty: itself
	file *codexhome.Worker // nil if it is bad
	Err  error             // of its file
}

// File is the path of the worker's settings.
func (w Worker) File() string { return filepath.Join(paths.WorkerSettings, w.Name+".toml") }

// Unit is the unit with its codex.
func (w Worker) Unit() string { return units.Worker(cmp.Or(w.Host, w.Name)) }

// Subject is the subject of findings on the worker.
func (w Worker) Subject() string { return "worker " + w.Name }

func (w Worker) socket() string { return units.WorkerSocket(w.Name) }
func (w Worker) home() string   { return filepath.Join(paths.WorkerHomes, w.Name) }

// socketPath is the socket of its codex, in the directory of the sockets.
func (w Worker) socketPath(directory string) string {
	return filepath.Join(directory, cmp.Or(w.Host, w.Name)+".sock")
}

// codexHome is the home of its codex.
func (w Worker) codexHome() string { return filepath.Join(paths.WorkerHomes, cmp.Or(w.Host, w.Name)) }

// keeper is the home of the unit that keeps the worker's login.
func (w Worker) keeper() string { return filepath.Join(paths.LoginHomes, w.Name) }

// Load reads the files of workers.
func Load(m survey.Machine, names []string) (all []Worker) {
	for _, name := range names {
		w := Worker{Name: name, Host: sharing.Host(m.Path(survey.Generated), name)}
		w.file, w.Err = codexhome.Load(m.Path(w.File()))
		all = append(all, w)
	}
	return all
}

// room is the workers, as their checks see them.
type room struct {
	*survey.Facts
	Host
	workers   []Worker
	control   string // the daemon's control socket
	directory string // of the sockets of the workers
}

// New returns the workers' part of an installation.
func New(f *survey.Facts, h Host, all []Worker, control, directory string) survey.Room {
	r := &room{Facts: f, Host: h, workers: all, control: control, directory: directory}
	both := []string{paths.User, paths.WorkerUser}
	out := survey.Room{
		Rules: []survey.Rule{
			{Path: paths.WorkerSettings, Owner: "root", Group: "root", Most: 0o755, Readers: both},
			{Path: paths.WorkerHomes, Owner: "root", Group: "root", Most: 0o755, Readers: []string{paths.WorkerUser}},
		},
		Rights: rights(all),
		Checks: []checkup.Check{
			{Name: "codex", Stage: checkup.Programs, Run: r.codex},
			{Name: "sandbox", Stage: checkup.Programs, Run: r.sandbox},
			{Name: "login", Stage: checkup.Programs, Run: r.login},
			{Name: "hands", Stage: checkup.Features, Run: r.hands},
			{Name: "sockets", Stage: checkup.Service, Run: r.sockets},
			{Name: "service", Stage: checkup.Service, Run: r.service},
			{Name: "models", Stage: checkup.Service, Run: r.models},
			{Name: "accounts", Stage: checkup.Service, Run: r.accounts},
		},
	}
	for _, w := range all {
		home, private := w.home(), survey.Rule{Home: w.home(), Unit: units.Worker(w.Name), Optional: true}
		if w.Host == "" {
			out.Units = append(out.Units, survey.Unit{Name: w.socket(), Needed: true},
				survey.Unit{Name: w.Unit(), Needed: true, User: units.WorkerUser(w.Name), Watched: true})
		}
		if w.file != nil && w.file.Hands != nil {
			out.Units = append(out.Units, survey.Unit{Name: units.Hands(w.Name)})
		}
		out.Homes = append(out.Homes,
			survey.Home{Subject: w.Subject(), Path: home, Unit: w.Unit(), TraceLog: codexhome.IsTraceLog})
		out.Rules = append(out.Rules,
			survey.Rule{Path: w.File(), Owner: "root", Group: "root", Most: 0o644, Readers: []string{paths.WorkerUser}},
			private.Of(home, 0o700), private.Of(home+"/auth.json", 0o600), private.Of(home+"/config.toml", 0o600))
		if w.file != nil && w.file.LoginApart() {
			kept := survey.Rule{Home: w.keeper(), Unit: units.Login(w.Name), Optional: true}
			out.Rules = append(out.Rules, kept.Of(w.keeper(), 0o700), kept.Of(w.keeper()+"/auth.json", 0o600))
		}
	}
	return out
}

// rights are the rights of the package's polkit rule, which is for the service and its workers.
func rights(all []Worker) []survey.Right {
	worker := units.Worker("default")
	if len(all) > 0 {
		worker = all[0].Unit()
	}
	return []survey.Right{
		{User: paths.User, Unit: worker, Verb: "reset-failed", May: true},
		{User: paths.User, Unit: paths.ServiceUnit, Verb: "reset-failed", May: true},
		{User: paths.User, Unit: worker, Verb: "restart"},
		{User: paths.WorkerUser, Unit: worker, Verb: "restart"},
		{User: paths.User, Unit: "dbus.service", Verb: "restart"},
		{User: paths.WorkerUser, Unit: worker, Verb: "reset-failed"},
	}
}

// Blame is a failure for an error, with the hint of a Problem as its remedy.
func Blame(subject string, err error, otherwise string) checkup.Finding {
	var p *codexhome.Problem
	if !errors.As(err, &p) || p.Hint == "" {
		return checkup.Failure(subject, err.Error(), otherwise)
	}
	bare := *p
	bare.Hint = ""
	return checkup.Failure(subject, bare.Error(), p.Hint)
}
