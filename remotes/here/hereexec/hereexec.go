// Package hereexec is `codex-proxy here-exec`, the main process of codex-user@.service: it runs the own codex of a
// user, continues the turns that a crash has cut, and connects the user's clients to codex.
package hereexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/strict"
	"codex-proxy/notify"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here"
	"codex-proxy/remotes/mainprocess"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
	"codex-proxy/units/restartdelay"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/prepare"
)

const (
	// startBound bounds the wait of a client for codex, which systemd starts again if it fails.
	startBound = time.Minute
	// clientName is the name by which the first client of codex makes itself known, which codex sends to the model's
	// endpoint: as the TUI does, if it has started codex itself.
	clientName = "codex-tui"
)

// Wait is `codex-proxy here-wait`: it waits for the rest of the restart delay, and has the installed codex copied.
func Wait(ctx context.Context, name string, policy prepare.Policy, stderr io.Writer) error {
	if err := units.ValidUserName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	choose := func(ctx context.Context, n *notify.Notifier) {
		s, err := here.Load(paths.HereSettings)
		if err == nil { // else here-exec reports it
			(&prepare.Choice{Unit: units.Here(name), CodexPath: s.CodexPath, Alone: true, Policy: policy, Notifier: n,
				Stderr: stderr}).Make(ctx)
		}
	}
	nothing := func() error { return nil } // else runs then
	return restartdelay.AwaitOf(ctx, units.Here(name), logger, choose, nothing)
}

// Unit is the environment that systemd gives the main process.
type Unit struct {
	Name    string // of the user
	Version string // of this program
	Home    string // of the user
	State   string // the StateDirectory
	Runtime string // the RuntimeDirectory
	Machine string // the settings of the machine, which the user's follow
	Records here.Records
	Cgroup  string // of the unit: no process of it may attach; empty: unknown
	Stderr  io.Writer

	logger *slog.Logger
	tasks  sync.WaitGroup
}

// Run runs codex until it ends, and returns an error with the exit status.
func (u *Unit) Run(ctx context.Context) error {
	u.logger = slog.New(journal.NewHandler(journal.Proxy, u.Stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(u.logger)
	if err != nil {
		return err
	}
	err = u.run(ctx, notifier)
	if err == nil || cli.HasStatus(err) && errors.Unwrap(err) == nil { // codex's own end
		return err
	}
	notifier.Status("Not started: " + err.Error())
	mainprocess.TurnAway(paths.HereSocketName, err)
	var fault *strict.Error
	var problem *codexhome.Problem
	switch {
	case cli.HasStatus(err):
		return err
	case errors.As(err, &fault), errors.As(err, &problem):
		return cli.Exit(cli.Config, err)
	}
	return cli.Exit(notify.ExitExec, err)
}

func (u *Unit) run(ctx context.Context, notifier *notify.Notifier) error {
	settings, err := here.Load(u.Machine, filepath.Join(u.Home, paths.UserHereSettings))
	if err != nil {
		return err
	}
	if err := u.environ(); err != nil {
		return err
	}
	program, err := u.program(settings)
	if err != nil {
		return err
	}
	record, err := u.Records.Get(u.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lent, err := u.loan(record)
	if err != nil {
		return err
	}
	socket, err := mainprocess.NewSocket(u.codexSocket())
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // its path counts on the descriptor
	known := newGreeting(u.State, program, u.logger)
	shells := &environments{settings: settings, read: readEnvironment}
	manager, err := remotes.New(u.options(settings, socket.Path(), known, shells, lent))
	if err != nil {
		return err
	}
	if lent != nil {
		lent.tokens.Switched = manager.Switched
	}
	edit := func(s authz.Session, r authz.Request) []byte { return lent.edit(r, shells.edit(s, r)) }
	relay, err := mainprocess.Relay(paths.HereSocketName, u.proxy(edit, manager, known), socket)
	if err != nil {
		return err
	}
	relay.Early = true
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { stop(); u.tasks.Wait() }()
	return mainprocess.Codex{Notifier: notifier, Logger: u.logger, Stderr: u.Stderr, Manager: manager, End: mainprocess.End}.
		Exec(ctx, notify.Command{
			Args:    append([]string{program, "app-server", "--listen", "unix://" + u.codexSocket()}, lent.args(record)...),
			Started: func() error { u.serve(serving, settings, socket, manager, lent, record); return nil },
			Relay:   relay,
		})
}

// codexSocket is where codex listens, until this process has opened it.
func (u *Unit) codexSocket() string { return filepath.Join(u.Runtime, "app-server.sock") }

// serve starts the servers that run next to codex.
func (u *Unit) serve(ctx context.Context, s *here.Settings, socket *mainprocess.Socket, manager *remotes.Manager,
	lent *loan, record here.Record) {
	u.serveLoan(ctx, lent)
	u.tasks.Go(func() {
		if err := socket.Await(ctx); err != nil {
			u.logger.Error("codex's socket cannot be opened", "error", err)
			return
		}
		lent.open(ctx)
		_ = manager.Run(ctx) // returns with ctx
	})
	u.tasks.Go(func() {
		upgrade{installed: func() (string, error) { return u.find(s) }, loan: u.loanOf, lent: loanWord(record),
			renew: manager.Renew, logger: u.logger}.run(ctx)
	})
}

// environ gives codex and its tools the directories in which a user's own programs are, and takes the variables away
// that are about the unit. The rest is systemd's, and of the drop-ins of the unit.
func (u *Unit) environ() error {
	for _, name := range []string{"STATE_DIRECTORY", "RUNTIME_DIRECTORY"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	dirs := strings.Split(os.Getenv("PATH"), ":")
	for _, own := range []string{".local/bin", "bin"} {
		if info, err := os.Stat(filepath.Join(u.Home, own)); err == nil && info.IsDir() {
			dirs = append([]string{filepath.Join(u.Home, own)}, dirs...)
		}
	}
	return os.Setenv("PATH", strings.Join(dirs, ":"))
}

// find is the installed program.
func (u *Unit) find(s *here.Settings) (string, error) {
	return codexhome.FindCodex(s.CodexPath, os.Getenv("PATH"))
}

// program is the copy of the installed program, if it has one. A codex that belongs to the user runs where it is.
func (u *Unit) program(s *here.Settings) (string, error) {
	installed, err := u.find(s)
	if err != nil {
		return "", err
	}
	machine, err := here.Load(u.Machine)
	if err != nil || machine.CodexPath != s.CodexPath {
		return installed, err
	}
	copied, err := prepare.Chosen(units.Here(u.Name))
	if err != nil || copied == "" {
		return installed, err
	}
	return copied, nil
}

func (u *Unit) options(s *here.Settings, socket string, known *greeting, shells *environments,
	lent *loan) remotes.Options {
	o := remotes.Options{
		Name: "codex-user@" + u.Name, Socket: socket, State: u.turns(),
		ClientName: clientName, Version: u.Version, Attach: "codex resume --last",
		Settings: paths.HereSettings, Limit: s.ContinueLimit, IdleStop: s.IdleStop, LateFiles: true,
		Restart:     func() error { return unix.Kill(unix.Getpid(), unix.SIGTERM) },
		Initialized: known.learn, Loaded: shells.loaded, Unloaded: shells.forget, Logger: u.logger,
	}
	if lent != nil {
		o.Accounts = lent.tokens
	}
	return o
}

// proxy is the way of the user's clients to codex: all that they ask for passes.
func (u *Unit) proxy(edit func(authz.Session, authz.Request) []byte, manager *remotes.Manager,
	known *greeting) *authz.Proxy {
	p := &authz.Proxy{
		Remote: u.Name, Version: u.Version, Logger: u.logger, Cgroup: u.Cgroup, Manager: remoteapi.Handler(manager),
		Open: true, Edit: edit, Admit: admit,
		Starting: func() (result json.RawMessage, wait func(context.Context) error) {
			return known.starting(manager.Open)
		},
	}
	mainprocess.Follow(p, manager)
	return p
}

// admit lets the user attach, and no other one, whatever the mode of the socket.
func admit(peer authz.Peer, _ authz.Role) error {
	if peer.UID != os.Getuid() {
		return fmt.Errorf("this is the codex of another user: only %s may attach", authz.Peer{UID: os.Getuid()}.User())
	}
	return nil
}
