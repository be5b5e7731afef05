// Package shim is `codex-proxy notify-exec`: it runs a program as the main process of
// a unit with Type=notify.
package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"codex-proxy/codex/probe"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/units/restartdelay"
	"codex-proxy/workers/login"
)

// relayLimit is above the need of the clients of one socket: for each account of a codex (sharing.Most), each of two
// processes of the proxy has two connections.
const relayLimit = 256

// ExitResting is the exit status of a worker that the proxy has ended because it has
// nothing to do. The unit names it in RestartPreventExitStatus= and SuccessExitStatus=.
// systemd.exec(5) leaves 150 to 199 to applications.
const ExitResting = 150

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

// Shim is one command line of notify-exec.
type Shim struct {
	Probe        probe.Options
	Relay        string // the name of the inherited socket; empty: none
	RelayTo      string // the path of the command's socket
	Certificates string // the file for SSL_CERT_FILE=
	BlockSIGTERM string // the file that blocks SIGTERM while it exists
	Waited       bool   // the unit has waited for its restart delay
	Owner        Owner  // keeps COMMAND the only process of its kind
	Command      notify.Command

	probe    string   // the value of --probe
	ready    []string // the values of --ready
	tracing  bool
	requests *requests
	tokens   *login.Tokens // nil: codex has no home
}

// SetStderr reads the value of --stderr.
func (s *Shim) SetStderr(value string) error {
	if value != "plain" && value != "tracing" {
		return errors.New("want plain or tracing")
	}
	s.tracing = value == "tracing"
	return nil
}

// Validate checks the options against each other, and completes Command.
func (s *Shim) Validate() error {
	switch {
	case len(s.Command.Args) == 0:
		return errors.New("no command: put it last, after --, " +
			"as in notify-exec --probe tcp:127.0.0.1:80 -- COMMAND ARG")
	case s.Relay != "" && s.RelayTo == "":
		return errors.New("--relay needs --relay-to PATH, the unix socket that the command makes")
	case s.Relay == "" && s.RelayTo != "":
		return errors.New("--relay-to needs --relay NAME, the socket that systemd passes " +
			"(FileDescriptorName= or the socket unit's name)")
	case s.RelayTo != "" && !filepath.IsAbs(s.RelayTo):
		return fmt.Errorf("--relay-to %q: give an absolute path", s.RelayTo)
	default:
		return s.setProbes()
	}
}

// Run runs the command until it ends, and returns an error with its exit status. If
// a signal killed the command, Run does not return: the process dies of the same
// signal. Run handles the stop signals itself: ctx must not be bound to them.
func (s *Shim) Run(ctx context.Context, stderr io.Writer) error {
	runtime.GOMAXPROCS(1) // it only passes bytes on, and probes
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	s.requests = newRequests()
	s.Command.Rest = s.requests.resting
	notifier, err := notify.FromEnv(logger)
	if err == nil {
		err = s.inherit(notifier.WatchdogInterval())
	}
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := trust(s.Certificates); err != nil {
		return cli.Exit(notify.ExitExec, err)
	}
	if _, err := os.Stat(s.BlockSIGTERM); err == nil {
		s.Command.BlockTerm = true
	}
	if s.tracing {
		s.Command.Stderr = journal.NewTracing(stderr, s.requests.of)
	}
	if !s.Waited && restartdelay.Await(ctx, notifier, logger) != nil {
		return nil // the unit was stopped
	}
	lock, err := s.Owner.Take(ctx)
	if err != nil {
		notifier.Status("Not started: " + err.Error())
		return cli.Exit(cli.TempFail, err)
	}
	if lock != nil {
		defer func() { _ = lock.Release() }()
		s.Command.Files = append(s.Command.Files, lock.File())
	}
	s.Command.MemoryEvents = notify.MemoryEvents()
	s.Command.Stopped = beingStopped
	end, err := leadOut(ctx, logger)
	if err != nil {
		notifier.Status("Not started: " + err.Error())
		return cli.Exit(notify.ExitExec, err)
	}
	status, err := notify.Exec(ctx, notifier, logger, s.Command)
	end()
	if err != nil {
		return cli.Exit(notify.ExitExec, err)
	}
	return s.end(status, logger)
}

// end returns the exit status of the command, with few exceptions.
func (s *Shim) end(status syscall.WaitStatus, logger *slog.Logger) error {
	switch {
	case s.requests.rests() && orderly(status) && s.requests.renews():
		return cli.Exit(cli.OK, nil) // systemd starts the unit again (Restart=always)
	case s.requests.rests() && orderly(status):
		return cli.Exit(ExitResting, nil)
	case s.Owner.Refused != "" && status.Exited() && final(status.ExitStatus()):
		logger.Warn("the command has exited with a status that would forbid a restart", "status", status.ExitStatus(),
			"instead", cli.Failure)
		return cli.Exit(cli.Failure, nil)
	}
	return cli.Exit(notify.Exit(status), nil)
}

// final reports whether the unit does not restart after this exit status (RestartPreventExitStatus= of
// codex-dependency@.service). It means a refused start or an invalid file; a server that exits with it has failed.
func final(status int) bool { return status == cli.TempFail || status == cli.Config }

// orderly reports whether the command has ended as it was asked to.
func orderly(status syscall.WaitStatus) bool {
	return status.Exited() && status.ExitStatus() == 0 || status.Signaled() && status.Signal() == syscall.SIGHUP
}

// inherit takes the socket of the relay, and checks the options against those that the
// service manager passed.
func (s *Shim) inherit(watchdog time.Duration) error {
	if err := s.fits(watchdog); err != nil {
		return err
	}
	sockets, err := notify.Inherited()
	if err != nil || s.Relay == "" {
		return err
	}
	listeners, err := sockets.Listeners(s.Relay)
	if err != nil {
		return fmt.Errorf("--relay %s: %w", s.Relay, err)
	}
	s.Command.Relay = &notify.Relay{Listeners: listeners, Target: s.RelayTo, Limit: relayLimit}
	if s.tracing {
		s.Command.Relay.Aside, s.Command.Relay.AsidePrefix = s.intercept, asidePrefix
		if home := os.Getenv("CODEX_HOME"); home != "" {
			s.tokens = &login.Tokens{Worker: filepath.Base(home), Home: home, Socket: s.RelayTo, Version: s.Probe.Version}
		}
		if s.Command.Alive != nil {
			s.Command.Alive = s.requests.alive(s.Command.Alive)
		}
	}
	return nil
}

// trust sets SSL_CERT_FILE, which OpenSSL and the programs that follow it read.
func trust(path string) error {
	if _, set := os.LookupEnv("SSL_CERT_FILE"); set || path == "" {
		return nil
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--certificates: %w", err)
	}
	return os.Setenv("SSL_CERT_FILE", path)
}

// beingStopped reports whether our own unit is being stopped. If systemd does not
// answer within stopBound, or not to this user, it is not.
func beingStopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	stopping, err := manager.Stopping(ctx)
	return err == nil && stopping
}
