// Package daemon is everything that runs in codex-proxy.service.
//
// New puts the parts together and starts nothing. Run starts the tasks, hands over to a
// successor or stops, and returns when the last turn has ended. Each part has the locks of
// its own data; only reload.ChangeLock holds a lock across parts.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"

	"codex-proxy/broker/brokerwatch"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"codex-proxy/daemon/accountstate"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/fleet"
	"codex-proxy/daemon/follow"
	"codex-proxy/daemon/health"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/reload"
	"codex-proxy/daemon/standby"
	"codex-proxy/daemon/textfile"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/usage"
	"codex-proxy/remotes/links"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/sharing"
)

// Settings are the initial settings of a Daemon.
type Settings struct {
	Config      *config.Config
	Version     string
	Logger      *slog.Logger
	Notifier    *notify.Notifier     // nil: no service manager waits for this process
	Predecessor *handoff.Predecessor // nil: this is no reload
}

// Daemon is everything that runs in codex-proxy.service.
type Daemon struct {
	cfg      *config.Config
	version  string
	logger   *slog.Logger
	notifier *notify.Notifier

	sockets   notify.Sockets
	listeners []net.Listener // of the API
	started   chan struct{}  // closed when this process serves, and READY=1 is sent

	predecessor *reload.Predecessor
	successor   *reload.Successor
	changeLock  reload.ChangeLock
	loads       *reload.Loads
	counter     *inflight.Counter

	changes          *changes
	health           *health.Health
	state            *daemonState
	accounts         *accountstate.Keeper
	textfile         *textfile.Keeper
	announcer        *announcer
	recent           *recent.Recent
	usage            *usage.Store
	fleet            *fleet.Exchange // nil: the keys are in a file
	shares           *limits.Shares  // nil: this host holds the limits of keys alone
	predecessorWatch *predecessorWatch
	reloader         *reloader
	operators        *operators.Operators

	background, serving []Task // of all parts

	systemd          *units.Manager
	dependencyStates *dependencyStates
	remotes          *remotewatch.Watch
	brokers          *brokerwatch.Watch
	hosts            sharing.Hosts // by the units at the start of this process
	follower         *follow.Follower
	pool             *workers.Pool
	accountStore     *accounts.Store
	standby          *standby.Planner
	responses        stored.Store // nil: none is kept
	links            *links.Links
	server           *api.API
}

// New puts the parts together. It starts nothing.
func New(s Settings) (*Daemon, error) {
	s.Predecessor.Attach(s.Notifier, s.Logger)
	d := &Daemon{
		cfg: s.Config, version: s.Version, logger: s.Logger, notifier: s.Notifier,
		started: make(chan struct{}), successor: reload.NewSuccessor(), systemd: units.NewManager(),
	}
	program, err := handoff.Program()
	if err != nil {
		return nil, err
	}
	if d.sockets, err = openSockets(s.Config, s.Predecessor, s.Logger); err != nil {
		return nil, err
	}
	if d.listeners, err = apiListeners(s.Config, d.sockets); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if d.fleet, err = newFleet(d); err != nil {
		return nil, err
	}
	if d.responses, err = openResponses(d, registry); err != nil {
		return nil, err
	}
	d.connect(s.Predecessor)
	d.observe(registry)
	d.offer(registry)
	d.plan(registry)
	d.operate(registry)
	d.lend(registry)
	d.succeed(registry, s.Predecessor, program)
	return d, nil
}

// Run is the daemon's life: until a signal, the end of ctx or a failure stops it, or a
// successor replaces it. It returns when the last turn has ended. Every goroutine that
// outlives a call starts here.
func (d *Daemon) Run(ctx context.Context, signals <-chan os.Signal) error {
	defer d.systemd.Close()
	if d.responses != nil {
		defer d.responses.Close() //nolint:errcheck // the next Open repairs the files
	}
	limitHeap(d.cfg.RequestMemory)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	background, end := context.WithCancel(context.Background())
	defer end()
	grace, hasten := context.WithCancel(background)
	defer hasten()
	var g errgroup.Group
	failed := make(chan error, 1)
	handler := signalHandler{reload: d.reloader.request, stop: stop, hasten: hasten, logger: d.logger}
	start(background, &g, failed, append(d.background, Task{"signals", func(ctx context.Context) error {
		return handler.run(ctx, signals)
	}}))
	d.logListening()
	start(serving, &g, failed, d.serving)
	var cause error
	select {
	case cause = <-failed:
	case <-serving.Done():
	case <-d.successor.Serving():
	}
	stopped := serving.Err() != nil
	stop()
	<-d.reloader.settled // a hand-off has gone too far, or does not happen
	d.end(background, grace, stopped, hasten)
	end()
	return errors.Join(cause, g.Wait())
}

// end finishes the requests of clients. stopped reports whether the service was to stop:
// with a successor, the signal was meant for that.
func (d *Daemon) end(background, grace context.Context, stopped bool, hasten func()) {
	e := &ending{
		drainTimeout: d.cfg.DrainTimeout, notifier: d.notifier, pool: d.pool, server: d.server,
		operators: d.operators, health: d.health, changes: d.changes, counter: d.counter, links: d.links,
		recent:      d.recent,
		predecessor: d.predecessor, successor: d.successor, logger: d.logger,
		restarting: restarts.Service{Systemd: d.systemd, Logger: d.logger}.Pending,
	}
	if !d.successor.Serves() {
		e.drain(background, grace)
		return
	}
	if stopped {
		d.successor.Stop()
	}
	e.retire(background, grace, hasten)
}
