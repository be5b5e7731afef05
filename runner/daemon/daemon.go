// Package daemon is the composition root of `codex-runner serve`: it opens the store and the socket, recovers the
// sessions of an earlier process, and runs until it is stopped.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"codex-proxy/notify"
	"codex-proxy/runner"
	"codex-proxy/runner/api"
	"codex-proxy/runner/config"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
	"codex-proxy/units"
)

// SocketName is FileDescriptorName= of codex-runner.socket.
const SocketName = "api"

// anySession is the ID of no session, to ask whether the service may start one.
const anySession = "aaaaaaaaaaaaaaaa"

// Settings of the daemon.
type Settings struct {
	Config   *config.Config
	Version  string
	Logger   *slog.Logger
	Notifier *notify.Notifier
}

const (
	// recoverBound bounds the wait for systemd and polkit, which may start just then, and the search for the sessions
	// that run; TimeoutStartSec= of the unit is longer.
	recoverBound = 50 * time.Second
	// shutdownBound bounds the end of requests at a stop. Sessions go on.
	shutdownBound = 10 * time.Second
	// memoryLimit has the garbage collector work harder before the daemon gets large (runtime/debug.SetMemoryLimit).
	memoryLimit = 32 << 20
)

// Run serves until ctx is done, and then returns nil. Sessions that run go on without it.
func Run(ctx context.Context, s Settings) error {
	debug.SetMemoryLimit(memoryLimit)
	listener, err := inherited()
	if err != nil {
		return err
	}
	defer listener.Close()
	st, err := store.Open(ctx, filepath.Join(paths.StateDir, store.FileName))
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Close(); err != nil {
			s.Logger.Error("cannot close the store", "error", err)
		}
	}()
	watcher, err := logs.NewWatcher()
	if err != nil {
		return err
	}
	if err := watcher.Refused(); err != nil {
		s.Logger.Warn("changes of files are looked for", "error", err)
	}
	manager := units.NewManager()
	defer manager.Close()
	registry := prometheus.NewRegistry()
	return serve(ctx, s, listener, manager, registry, runner.New(runner.Settings{
		Store: st, Units: manager, Watcher: watcher, Logger: s.Logger, Registry: registry, Version: s.Version,
		StateDir: paths.StateDir, RuntimeDir: paths.RuntimeDir, Secrets: paths.Secrets,
		Network: s.Config.Network, Environments: s.Config.Environments, Artifacts: s.Config.Artifacts, Hooks: s.Config.Hooks,
		Sandbox: s.Config.Sandbox, Limits: s.Config.Limits, MaxSessions: s.Config.MaxSessions, MaxQueued: s.Config.MaxQueued,
		Share: s.Config.Share, LeastFree: runner.LeastFree,
		Repositories: s.Config.Repositories, WorkspaceDisk: s.Config.WorkspaceDisk,
		Workspaces: s.Config.Workspaces, IdleTimeout: s.Config.IdleTimeout,
		MaxIdleTimeout: s.Config.MaxIdle, Retention: s.Config.Retention,
	}))
}

// inherited returns the socket of codex-runner.socket.
func inherited() (net.Listener, error) {
	sockets, err := notify.Inherited()
	if err != nil {
		return nil, err
	}
	listeners, err := sockets.Listeners(SocketName)
	if err != nil {
		return nil, fmt.Errorf("%w (start codex-runner.socket; systemd passes the socket)", err)
	}
	return listeners[0], nil
}

func serve(ctx context.Context, s Settings, listener net.Listener, systemd *units.Manager, metrics prometheus.Gatherer,
	r *runner.Runner) error {
	// The goroutines that requests need run until the requests have ended.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, recoverBound)
	defer cancel()
	if err := systemd.Permitted(bounded, paths.SessionUnit(anySession)); err != nil {
		return err
	}
	recovery, err := r.Recover(bounded)
	if err != nil {
		return err
	}
	server := api.New(api.Settings{
		Runner: r, Version: s.Version, Admins: s.Config.Admins, Connections: s.Config.Connections, Metrics: metrics, Logger: s.Logger,
	})
	announcer := newAnnouncer(r, s.Notifier, metrics, s.Logger)
	var g errgroup.Group
	task := func(f func() error) {
		g.Go(func() error {
			defer stop() // one that ends ends all
			return f()
		})
	}
	task(func() error { return r.Watcher.Run(work) })
	task(func() error { return r.Run(work) })
	task(func() error { return server.Serve(listener) })
	task(func() error { return announcer.run(work) })
	task(func() error { return announcer.write(work) })
	task(func() error { return s.Notifier.RunWatchdog(work, s.Notifier.WatchdogInterval(), r.Alive) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-work.Done():
		}
		s.Notifier.Stopping("Stopping; sessions go on")
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownBound)
		defer cancel()
		err := server.Shutdown(bounded)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // clients that do not read go with the process
		}
		stop()
		return err
	})
	s.Notifier.Ready(fmt.Sprintf("Serving; found %d commands of an earlier process", recovery))
	return g.Wait()
}
