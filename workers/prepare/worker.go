// Package prepare readies a worker for its start.
package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/units/restartdelay"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
	"codex-proxy/workers/shim"
)

// Wait is `codex-proxy worker-wait`: it waits for the rest of the worker's restart delay, and chooses the copy of
// codex.
func Wait(ctx context.Context, name string, policy Policy, stderr io.Writer) error {
	if err := units.ValidName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	choose := func(ctx context.Context, n *notify.Notifier) {
		if w, err := codexhome.Load(workerFile(name)); err == nil { // else worker-prepare reports it
			stop := func(ctx context.Context, names ...string) error {
				n.ExtendTimeout(stopLoginBound + startBound)
				return stopUnits(ctx, names...)
			}
			fromUnit.placeLogins(ctx, name, w, stop, func(line string) {
				fmt.Fprintf(stderr, "codex-worker@%s: %s\n", name, line)
			})
			(&Choice{Unit: units.Worker(name), CodexPath: w.CodexPath, None: w.Mode == codexhome.Demo, Policy: policy,
				Notifier: n, Stderr: stderr}).Make(ctx)
		}
	}
	return restartdelay.AwaitOf(ctx, units.Worker(name), logger, choose, func() error { return markStopped(runtimeDir()) })
}

// Worker is `codex-proxy worker-prepare`. It prints a fault as one line, which systemd
// puts in the unit's journal, and returns the exit status.
func Worker(ctx context.Context, name string, stderr io.Writer) error {
	if err := units.ValidName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	note := func(line string) {
		fmt.Fprintf(stderr, "codex-worker@%s: %s\n", name, strings.Join(strings.Fields(line), " "))
	}
	if _, err := os.Lstat(filepath.Join(runtimeDir(), stoppedName)); err == nil {
		return nil
	}
	notifier, err := notify.FromEnv(slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo)))
	if err != nil {
		return err
	}
	notifier.Status("Starting: the configuration is written and checked")
	home, err := workerHome(name, note)
	if err == nil {
		err = placedLogin()
	}
	if err == nil {
		err = askBroker(ctx, os.Getenv(shim.BrokerVariable))
	}
	if err == nil {
		home.Program, err = Chosen(units.Worker(name))
	}
	if err == nil {
		err = WithSignals(ctx, func(ctx context.Context) error { return prepareAlone(ctx, name, home) })
	}
	if err != nil {
		note(err.Error())
		// `systemctl status` and, over D-Bus, the proxy's probes show it.
		// NotifyAccess=exec lets a command of ExecStartPre= do so.
		notifier.Status("Not started: " + err.Error())
	}
	ExitBySignal(err)
	return cli.Exit(Status(err), nil)
}

// stoppedName is a file of worker-wait for worker-prepare: systemd runs the next program
// of a start that is stopped if the one before it has succeeded.
const stoppedName = "stopped"

// markStopped writes that file. Root writes it to a directory of the worker, and follows
// no link there.
func markStopped(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	file, err := root.OpenFile(stoppedName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func runtimeDir() string { return first(os.Getenv("RUNTIME_DIRECTORY")) }

// first is the first directory of a list of systemd.
func first(list string) string {
	dir, _, _ := strings.Cut(list, ":")
	return dir
}

// prepareAlone prepares the home while nothing else writes to it. The shim takes the
// lock again for codex.
func prepareAlone(ctx context.Context, name string, home *codexhome.Home) error {
	lock, err := homelock.Take(ctx, home.Dir, units.Worker(name))
	if err != nil {
		return fmt.Errorf("%w: %w", err, codexhome.ErrRetry)
	}
	return errors.Join(home.Prepare(ctx), lock.Release())
}

// Status is the exit status of a preparation of a home that ended with err.
func Status(err error) int {
	var problem *codexhome.Problem
	switch {
	case err == nil:
		return cli.OK
	case errors.As(err, &problem):
		return cli.Config
	case errors.Is(err, codexhome.ErrRetry):
		return cli.TempFail
	}
	return cli.Failure
}

func workerFile(name string) string {
	return filepath.Join(cmp.Or(first(os.Getenv("CONFIGURATION_DIRECTORY")), paths.Settings), "workers", name+".toml")
}

// workerHome takes the directories that systemd gives the unit (systemd.exec(5),
// "Environment variables set or propagated by the service manager"): the first one of
// a list.
func workerHome(name string, note func(string)) (*codexhome.Home, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find codex-proxy itself: %w", err)
	}
	home := &codexhome.Home{
		Worker:      name,
		File:        workerFile(name),
		Dir:         cmp.Or(os.Getenv("CODEX_HOME"), first(os.Getenv("STATE_DIRECTORY"))),
		Runtime:     runtimeDir(),
		Credentials: os.Getenv("CREDENTIALS_DIRECTORY"),
		Broker:      brokerAddress(os.Getenv(shim.BrokerVariable)),
		Self:        self,
		SearchPath:  os.Getenv("PATH"),
		Note:        note,
	}
	if home.Dir == "" || home.Runtime == "" {
		return nil, &codexhome.Problem{Text: "STATE_DIRECTORY and RUNTIME_DIRECTORY are not set",
			Hint: "worker-prepare is run by codex-worker@.service, `systemctl start codex-worker@" + name + "`"}
	}
	return home, nil
}
