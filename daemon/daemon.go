// Package daemon is everything that runs in codex-proxy.service.
//
// New puts the parts together and starts nothing. Run starts the tasks, hands over to a
// successor or stops, and returns when the last turn has ended. Each part has the locks of
// its own data; only gate holds a lock across parts.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/succession"
	"codex-proxy/daemon/textfile"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/traces"
	"codex-proxy/proxy/usage"
	"codex-proxy/remotes/links"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
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

	predecessor *succession.Predecessor
	successor   *succession.Successor
	loads       *succession.Loads
	ledger      *inflight.Ledger

	changes   *changes
	health    *health
	keys      *keyTable
	drains    *drainTable
	orders    *accountTable
	estate    *estate
	accounts  *accountKeeper
	textfile  *textfileKeeper
	announcer *announcer
	inheritor *inheritor
	reloader  *reloader
	operators operators

	systemd   *units.Manager
	watcher   *units.Watcher
	needs     *needs
	remotes   *remotewatch.Watch
	resets    *units.Resets // of dependencies and remotes
	pool      *workers.Pool
	book      *accounts.Book
	standby   *planner
	loans     *loans
	usage     *usage.Store
	responses *stored.Store  // nil: none is kept
	traces    *traces.Tracer // nil without any
	links     *links.Links
	server    *api.API
}

// New puts the parts together. It starts nothing.
func New(s Settings) (*Daemon, error) {
	s.Predecessor.Attach(s.Notifier, s.Logger)
	d := &Daemon{
		cfg: s.Config, version: s.Version, logger: s.Logger, notifier: s.Notifier,
		started: make(chan struct{}), successor: succession.NewSuccessor(), systemd: units.NewManager(),
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
	d.connect(s.Predecessor)
	metrics := d.observe(registry)
	d.usage = newUsage(d.cfg, registry, d.logger)
	d.responses = openResponses(d.cfg, registry, d.logger)
	d.traces = newTraces(d.cfg, d.version, registry, d.logger)
	d.links = newLinks(d.cfg, d.systemd, registry, d.logger)
	d.server = d.newServer(registry)
	d.health.loops = []func(context.Context) error{d.watcher.Alive, d.pool.Alive, d.server.Alive}
	d.operate()
	d.plan(registry)
	d.loans = newLoans(d.book, d.pool, d.systemd, d.logger)
	registry.MustRegister(d.loans)
	d.changes.others = append(d.changes.others, d.loans.touch)
	d.succeed(s.Predecessor, program, metrics)
	return d, nil
}

// connect connects this process to the processes before and after it.
func (d *Daemon) connect(process *handoff.Predecessor) {
	d.predecessor = succession.NewPredecessor(process, d.started)
	d.loads = succession.NewLoads(d.predecessor, d.successor)
	d.changes = newChanges(d.loads.Changed)
	d.ledger = inflight.New(inflight.Settings{
		Own: d.load, Elsewhere: d.setElsewhere, Changed: d.loads.Changed, Freed: d.loads.Freed, Logger: d.logger,
	})
	d.accounts = newAccountKeeper(d.cfg.Accounts, d.cfg.Workers, d.logger)
	d.accounts.started, d.accounts.successor = d.started, d.successor
	d.accounts.onChange = func() {
		d.pool.AccountsChanged()
		d.changes.reportChanged()
	}
	d.book = d.accounts.book
	d.pool = d.newPool()
	d.loads.Connect(d.ledger, d.pool)
}

// load is the load of this process.
func (d *Daemon) load() inflight.Load {
	return inflight.Load{Workers: d.pool.Loads(), Keys: d.server.Limiter.KeyUses(), Waiting: d.pool.Waiting() > 0}
}

// setElsewhere counts the load of other processes.
func (d *Daemon) setElsewhere(l inflight.Load) {
	d.pool.SetPeerLoads(l.Workers)
	d.server.Limiter.KeysElsewhere(l.Keys)
}

// observe makes the report and the metrics of this process, and the watcher of the units.
func (d *Daemon) observe(registry prometheus.Registerer) *metrics {
	m := newMetrics(registry, metricsSettings{
		version: d.version, watchdog: d.notifier.WatchdogInterval(),
		active: func() bool { return d.predecessor.Running() != nil },
	})
	d.health = &health{pool: d.pool, metrics: m, changed: d.changes.reportChanged, logger: d.logger}
	d.health.tracker = probes.NewTracker(time.Now(), d.health.flipped)
	registry.MustRegister(newDependencyCollector(d.health.report), newRemoteCollector(d.health.report))
	d.textfile = &textfileKeeper{
		path: d.cfg.Textfile, started: d.started, successor: d.successor, logger: d.logger,
	}
	if d.cfg.Textfile != "" {
		d.textfile.writer = textfile.New(d.cfg.Textfile, d.version, d.health.report, d.logger)
		d.changes.others = append(d.changes.others, d.textfile.writer.Changed)
	}
	d.resets = newResets(d.cfg.ResetAfter, d.systemd, d.logger)
	d.needs = newNeeds(d.cfg, d.pool, d.resets, d.changes.reportChanged, d.logger)
	d.health.dependencies = d.needs.watch.Report
	d.remotes = newRemotes(d.resets, d.changes.reportChanged, d.logger)
	d.health.remotes = d.remotes.Report
	d.watcher = units.NewWatcher(units.Config{
		Units: append(unitNames(d.cfg.Workers), d.needs.units()...), Others: d.remotes.Units,
		Logger: d.logger, Registry: registry,
		OnState: func(u units.State) {
			d.needs.watch.UnitChanged(u) // first, so that a worker that starts with it does not wait for it
			d.pool.UnitChanged(u)
			d.remotes.UnitChanged(u)
		},
		OnBus: func(up bool, err error) {
			d.needs.watch.BusChanged(up)
			d.health.busChanged(up, err)
		},
		Unmanaged: os.Getenv("INVOCATION_ID") == "", // systemd.exec(5)
	})
	return m
}

// operate makes the tables that operators change while the service runs.
func (d *Daemon) operate() {
	gate := &gate{}
	d.keys = &keyTable{
		keys: d.cfg.Keys, accounts: d.cfg.Workers, named: d.cfg.KeyFile, gate: gate, predecessor: d.predecessor,
		revised: d.links.Revise, logger: d.logger,
	}
	d.drains = &drainTable{gate: gate, pool: d.pool, predecessor: d.predecessor}
	d.orders = &accountTable{
		book: d.book, plan: func() []accounts.Step { return d.standby.Plan() }, gate: gate, predecessor: d.predecessor,
		drained: d.pool.Drained, changed: d.pool.AccountsChanged, logger: d.logger,
	}
	server := control.New(d.pool, d.health.report, d.keys, d.drains, d.orders, d.logger)
	d.operators = operators{server, d.logger}
	d.changes.control = server.Changed
}

// plan makes the planner that starts and stops the workers by the quota of their accounts.
func (d *Daemon) plan(registry prometheus.Registerer) {
	registry.MustRegister(workers.NewInUseCollector(d.book))
	d.standby = &planner{
		policy: d.cfg.Accounts, book: d.book, pool: d.pool, started: d.started, predecessor: d.predecessor,
		changed: make(chan struct{}, 1), memory: map[string]remembered{},
	}
	d.changes.others = append(d.changes.others, d.standby.touch)
	d.standby.assign(workers.Spare) // before the first plan, a stopped worker is no outage
	d.needs.assign()                // before systemd reports a dependency, it is not ready
}

// succeed makes the takeover from a predecessor and the hand-over to a successor.
func (d *Daemon) succeed(process *handoff.Predecessor, program []string, m *metrics) {
	d.estate = &estate{
		pool: d.pool, book: d.book, server: d.server, ledger: d.ledger, keys: d.keys, metrics: m,
		textfile: d.textfile, dependencies: d.needs.watch, remotes: d.remotes,
	}
	d.reloader = &reloader{
		program: program, startTimeout: d.cfg.StartTimeout, notifier: d.notifier, sockets: d.sockets,
		health: d.health, metrics: m, gate: d.keys.gate, keys: d.keys, ledger: d.ledger, estate: d.estate,
		server: d.server, operators: d.operators, successor: d.successor, logger: d.logger,
		requests: make(chan chan<- error), settled: make(chan struct{}),
	}
	d.inheritor = &inheritor{
		predecessor: d.predecessor, started: d.started, ledger: d.ledger, changes: d.changes,
		estate: d.estate, textfile: d.textfile, links: d.links, logger: d.logger,
	}
	d.announcer = &announcer{
		startTimeout: d.cfg.StartTimeout, notifier: d.notifier, health: d.health, predecessor: process,
		estate: d.estate, lastFailure: d.reloader.lastFailure, checkAliases: d.server.Catalogue.CheckAliases,
		changed: d.changes.report, started: d.started,
	}
}

// Run is the daemon's life: until a signal, the end of ctx or a failure stops it, or a
// successor replaces it. It returns when the last turn has ended. Every goroutine that
// outlives a call starts here.
func (d *Daemon) Run(ctx context.Context, signals <-chan os.Signal) error {
	defer d.systemd.Close()
	if d.responses != nil {
		defer d.responses.Close() //nolint:errcheck // the next Open repairs what it leaves behind
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
	start(background, &g, failed, d.background(signals, handler))
	d.logListening()
	start(serving, &g, failed, d.serving())
	var cause error
	select {
	case cause = <-failed:
	case <-serving.Done():
	case <-d.successor.Serving():
	}
	stopped := serving.Err() != nil
	stop()
	<-d.reloader.settled // a hand-over has gone too far, or does not happen
	d.end(background, grace, stopped, hasten)
	end()
	return errors.Join(cause, g.Wait())
}

// end finishes the requests of clients. stopped reports whether the service was to stop:
// with a successor, the signal was meant for that.
func (d *Daemon) end(background, grace context.Context, stopped bool, hasten func()) {
	e := &ending{
		drainTimeout: d.cfg.DrainTimeout, notifier: d.notifier, pool: d.pool, server: d.server,
		operators: d.operators, health: d.health, changes: d.changes, ledger: d.ledger, keys: d.keys, links: d.links,
		drains: d.drains, predecessor: d.predecessor, successor: d.successor, logger: d.logger,
		restarting: func(ctx context.Context) bool { return restarting(ctx, d.systemd, d.logger) },
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
