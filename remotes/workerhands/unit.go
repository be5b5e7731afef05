package workerhands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// Unit is the main process of codex-hands@.service.
type Unit struct {
	Worker string
	Dir    string // of the unit's state
	Runner string // the socket of codex-runner
	Search string // the directories to search for codex, if the worker runs no copy, as $PATH
	Stderr io.Writer
}

// Run serves until ctx ends. The error has an exit status.
func (u Unit) Run(ctx context.Context) error {
	logger := slog.New(journal.NewHandler(journal.Proxy, u.Stderr, slog.LevelInfo)).With("worker", u.Worker)
	w, err := codexhome.Load(filepath.Join(paths.WorkerSettings, u.Worker+".toml"))
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	if w.Hands == nil { // the unit was made of an earlier text
		notifier.Ready("Has nothing to do: " + w.File + " has no [hands]")
		return nil
	}
	daemon, codex, err := u.listeners()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all, err := New(ctx, u.options(w, logger))
	if err != nil {
		return err
	}
	notifier.Ready(fmt.Sprintf("Ready: sessions of %s", w.Hands.Repo))
	defer notifier.Stopping("Ending the exec-servers")
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go func() {
		_ = notifier.RunWatchdog(watching, notifier.WatchdogInterval(), func(context.Context) error {
			all.mu.Lock() // nothing holds it for long
			defer all.mu.Unlock()
			return nil
		})
	}()
	served := make(chan error, 1)
	go func() {
		served <- (&Server{all}).Serve(ctx, daemon, codex)
		stop()
	}()
	all.Run(ctx)
	return <-served
}

// listeners are the sockets for the daemon and for codex.
func (u Unit) listeners() (daemon, codex []net.Listener, err error) {
	sockets, err := notify.Inherited()
	if err != nil {
		return nil, nil, err
	}
	all, err := sockets.Listeners(paths.HandsSocketName)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range all {
		if l.Addr().String() == paths.OwnHandsSocket(u.Worker) {
			codex = append(codex, l)
		} else {
			daemon = append(daemon, l)
		}
	}
	if len(daemon) == 0 || len(codex) == 0 {
		return nil, nil, errors.New("its socket unit passes not both sockets: systemctl restart " + units.HandsSocket(u.Worker))
	}
	return daemon, codex, nil
}

func (u Unit) options(w *codexhome.Worker, logger *slog.Logger) Options {
	of := client.New(u.Runner)
	return Options{Worker: u.Worker, Dir: u.Dir, Hands: w.Hands, Client: of, Logger: logger,
		Program: func() (string, error) {
			copied, _, err := copies.Open().Chosen(units.Worker(u.Worker))
			if err != nil || copied.Program != "" {
				return copied.Program, err
			}
			return codexhome.FindCodex(w.CodexPath, u.Search)
		},
		Send: func(ctx context.Context, dir, ref string) (repository, commit string, err error) {
			found, err := sessions.Source{Client: of, Name: "hands.repo", Where: dir, Ref: ref}.Send(ctx)
			return found.Repository, found.Ref, err
		}}
}
