package daemon

import (
	"context"
	"net"
	"runtime/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
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

// reload hands over to successors as soon as this process serves.
func (d *Daemon) reload(ctx context.Context) error {
	defer close(d.reloader.settled)
	if !await(ctx, d.started) {
		return nil
	}
	return d.reloader.run(ctx)
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
		d.operators.Keys.LogUnusable()
	}
}

// feature has the tasks, the metrics and the check of the loop of a part of the daemon.
type feature struct {
	background []Task // run until the last turn has ended
	serving    []Task // run until the service stops or a successor serves
	metrics    []prometheus.Collector
	alive      func(context.Context) error // returns when the loop of the part has made a pass; nil: it has no loop
}

// add adds a part to the daemon.
func (d *Daemon) add(registry prometheus.Registerer, f feature) {
	registry.MustRegister(f.metrics...)
	d.background = append(d.background, f.background...)
	d.serving = append(d.serving, f.serving...)
	if f.alive != nil {
		d.health.Require(f.alive)
	}
}

// once returns a task that begins as soon as this process serves.
func (d *Daemon) once(name string, run func(context.Context) error) Task {
	return Task{name, func(ctx context.Context) error {
		if !await(ctx, d.started) {
			return nil
		}
		return run(ctx)
	}}
}

// await waits until c is closed, and reports false if ctx ends first.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// succeeding returns a task that begins at once, or after a reload as soon as this process serves.
func (d *Daemon) succeeding(name string, run func(context.Context) error) Task {
	if d.predecessor.Exists() {
		return d.once(name, run)
	}
	return Task{name, run}
}
