package daemon

import (
	"context"
	"net"
	"os"
	"runtime/pprof"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/internal/paths"
)

// startPatience is the longest that the first requests wait for the first worker.
const startPatience = time.Second

// Task is one long-lived part of the daemon.
type Task struct {
	// Name labels the goroutines of the task in profiles.
	Name string
	// Run blocks until its context ends, and then returns nil. An error ends the daemon.
	Run func(context.Context) error
}

// background returns the tasks that run until the last turn has ended.
func (d *Daemon) background(signals <-chan os.Signal, handler signalHandler) []Task {
	tasks := []Task{
		{"signals", func(ctx context.Context) error { return handler.run(ctx, signals) }},
		{"units", d.watcher.Run},
		{"workers", d.pool.Run},
		{"accounts", d.accounts.run},
		{"usage", d.usage.Run},
		{"textfile", d.textfile.run},
		{"watchdog", func(ctx context.Context) error { return d.health.watch(ctx, d.notifier) }},
		{"predecessor", d.inheritor.follow},
		{"poll predecessor", d.inheritor.poll},
		{"loads", d.loads.Send},
		{"queue", d.loads.Wake},
	}
	if d.responses != nil {
		tasks = append(tasks, Task{"responses", d.responses.Run}, Task{"background responses", d.server.Run})
	}
	if d.traces != nil {
		tasks = append(tasks, Task{"traces", d.traces.Run})
	}
	return tasks
}

// serving returns the tasks that run until the service stops or a successor serves.
func (d *Daemon) serving() []Task {
	tasks := []Task{
		{"announcer", d.announcer.run},
		{"standby", d.standby.run},
		{"reload", func(ctx context.Context) error {
			defer close(d.reloader.settled)
			if !await(ctx, d.started) {
				return nil
			}
			return d.reloader.run(ctx)
		}},
	}
	for _, l := range d.listeners {
		tasks = append(tasks, Task{"http", func(ctx context.Context) error { return d.serve(ctx, l) }})
	}
	for _, l := range d.sockets[paths.LoginsSocketName] {
		tasks = append(tasks, Task{"logins", func(ctx context.Context) error {
			if !await(ctx, d.started) {
				return nil
			}
			return d.loans.serve(ctx, l)
		}})
	}
	for _, l := range d.sockets[paths.ControlSocketName] {
		tasks = append(tasks, Task{"control", func(ctx context.Context) error {
			if !d.predecessor.Exists() || await(ctx, d.started) {
				d.operators.serve(l)
			}
			return nil
		}})
	}
	for _, l := range d.sockets[paths.ReloadSocket] {
		tasks = append(tasks, Task{"reload socket", func(ctx context.Context) error {
			if !await(ctx, d.started) {
				return nil
			}
			return reloadServer{d.reloader.requests, d.cfg.StartTimeout + 2*handoffMargin, d.logger}.run(ctx, l)
		}})
	}
	tasks = append(tasks, Task{"remotes", d.remotes.Run}, Task{"restart delays", d.resets.Run})
	if d.notifier != nil { // without a service manager, no process restarts this one
		tasks = append(tasks, Task{"restart delay", func(ctx context.Context) error {
			return resetRestartDelay(ctx, d.cfg.ResetAfter, d.systemd, d.logger)
		}})
	}
	return tasks
}

// start runs tasks in g. The first error is sent to failed.
func start(ctx context.Context, g *errgroup.Group, failed chan<- error, tasks []Task) {
	for _, task := range tasks {
		g.Go(func() (err error) {
			pprof.Do(ctx, pprof.Labels("task", task.Name), func(ctx context.Context) { err = task.Run(ctx) })
			if err != nil {
				select {
				case failed <- err:
				default: // the first failure ends the daemon
				}
			}
			return err
		})
	}
}

// serve accepts on l as soon as this process is the one to do so. After an ordinary start,
// the first requests wait in the socket for the first handshake, for a moment: it takes
// milliseconds in most cases, and saves a 503.
func (d *Daemon) serve(ctx context.Context, l net.Listener) error {
	var patience <-chan time.Time
	if !d.predecessor.Exists() {
		timer := time.NewTimer(startPatience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-d.started:
	case <-patience:
	case <-ctx.Done():
		return nil
	}
	return d.server.Serve(l)
}

// logListening logs that the daemon runs, and on which addresses.
func (d *Daemon) logListening() {
	for _, l := range d.listeners {
		d.logger.Info("listening",
			"address", l.Addr().String(), "workers", len(d.cfg.Workers), "version", d.version)
	}
	if !d.predecessor.Exists() { // a predecessor has the keys in force
		d.keys.logUnusable()
	}
}
