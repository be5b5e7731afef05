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

// Run serves until ctx ends.
func (u Unit) Run(ctx context.Context) error {
	logger := slog.New(journal.NewHandler(journal.Proxy, u.Stderr, slog.LevelInfo)).With("worker", u.Worker)
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	daemon, codex, err := u.listeners()
	if err != nil {
		return err
	}
	w, err := codexhome.Load(filepath.Join(paths.WorkerSettings, u.Worker+".toml"))
	if err == nil && w.Hands == nil { // the unit was made of an earlier text
		err = fmt.Errorf("%s has no [hands]", w.File)
	}
	if err != nil {
		return u.refuse(ctx, notifier, logger, daemon, codex, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all, err := New(ctx, u.options(w, logger))
	if err != nil {
		return err
	}
	notifier.Ready(fmt.Sprintf("Ready: sessions of %s", w.Hands.Repo))
	defer notifier.Stopping("Ending the exec-servers")
	defer watch(ctx, notifier, func(context.Context) error {
		all.mu.Lock() // nothing holds it for long
		defer all.mu.Unlock()
		return nil
	})()
	served := make(chan error, 1)
	go func() {
		served <- (&Server{all}).Serve(ctx, daemon, codex)
		stop()
	}()
	all.Run(ctx)
	return <-served
}

// refuse answers every request with the fault, until ctx ends. With an exit systemd would start the unit again at once,
// for as long as a request waits in its socket.
func (u Unit) refuse(
	ctx context.Context, notifier *notify.Notifier, logger *slog.Logger, daemon, codex []net.Listener, fault error,
) error {
	words := fmt.Sprintf("%v: mend the file, then %s", fault, remedy(u.Worker))
	logger.Warn("hands do not start", "error", words)
	notifier.Ready("Refuses: " + words)
	defer watch(ctx, notifier, func(context.Context) error { return nil })()
	// Clients do not read what is in the file.
	return Refuse(ctx, fmt.Sprintf("the file of the worker has a fault, or no [hands]: `systemctl status %s` names it; then %s",
		units.Hands(u.Worker), remedy(u.Worker)), daemon, codex)
}

// watch sends the pings of the watchdog, also while the unit ends, until stop.
func watch(ctx context.Context, notifier *notify.Notifier, probe func(context.Context) error) (stop func()) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = notifier.RunWatchdog(watching, notifier.WatchdogInterval(), probe) }()
	return stop
}

// remedy has the commands after which the units of a worker agree with its file.
func remedy(worker string) string {
	return "`systemctl daemon-reload; systemctl restart " + units.Worker(worker) + "`"
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
		return nil, nil, errors.New("its socket unit passes not both sockets: systemctl restart " +
			units.HandsSocket(u.Worker))
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
