package daemon

import (
	"context"
	"encoding/json"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/brokerwatch"
	"codex-proxy/daemon/accountstate"
	"codex-proxy/daemon/credentials"
	"codex-proxy/daemon/follow"
	"codex-proxy/daemon/health"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/reload"
	"codex-proxy/daemon/standby"
	"codex-proxy/daemon/textfile"
	"codex-proxy/dependencies"
	"codex-proxy/internal/paths"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/usage"
	"codex-proxy/remotes/here"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
	"codex-proxy/units/survey"
	"codex-proxy/units/watch"
	"codex-proxy/workers/sharing"
)

// connect connects this process to the processes before and after it. The counter and the pool need each other: a turn
// begins with a claim, and a claim counts the turns of the pool.
func (d *Daemon) connect(process *handoff.Predecessor) {
	d.predecessor = reload.NewPredecessor(process, d.started)
	d.loads = reload.NewLoads(d.predecessor, d.successor)
	d.changes = newChanges(d.loads.Changed)
	d.counter = inflight.New(inflight.Settings{
		Own: d.load, Elsewhere: d.setElsewhere, Changed: d.loads.Changed, Freed: d.loads.Freed, Logger: d.logger,
	})
	d.accounts = accountstate.NewKeeper(d.cfg.Accounts, d.cfg.Workers, d.started, d.successor, d.logger)
	d.accountStore = d.accounts.Store()
	d.hosts = sharing.Generated(survey.Generated, d.cfg.Workers)
	d.pool = d.newPool()
	d.loads.Connect(d.counter, d.pool)
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
func (d *Daemon) observe(registry prometheus.Registerer) {
	observeProcess(registry, d.version)
	d.add(registry, feature{serving: []Task{d.once("memory", trim)}})
	resets := restarts.NewResets(d.cfg.ResetAfter, d.systemd.ResetFailed, func(unit string, err error) {
		d.logger.Warn("cannot reset the restart delay of a unit", "unit", unit, "error", err)
	})
	d.dependencyStates = newDependencyStates(d.cfg, d.pool, resets, d.changes.reportChanged, d.logger)
	d.remotes = newRemotes(resets, d.changes.reportChanged, d.logger)
	d.brokers = brokerwatch.New(brokerwatch.Settings{Workers: d.cfg.Workers, Generated: survey.Generated,
		States: paths.BrokerStates, OnChange: d.changes.reportChanged, Logger: d.logger,
		OnLimits: func(worker, account string, limits json.RawMessage) {
			if d.hosts.Of(account) == worker { // no broker reports of an account that another one serves
				d.pool.Reported(account, limits)
			}
		},
		OnHidden: func(worker, account string, threads []string, used brokerstate.Tokens) {
			if account == worker || d.hosts.Of(account) == worker {
				d.server.Limiter.Charge(threads, usage.Share{Account: account, Counts: countsOf(used)})
			}
		}})
	d.health = health.New(health.Settings{
		Pool: d.pool, Dependencies: d.dependencyStates.watch.Report, Remotes: d.remotes.Report, Brokers: d.brokers.Report,
		Database: d.fleet.Report,
		Changed:  d.changes.reportChanged,
		Watchdog: d.notifier.WatchdogInterval(), Registry: registry, Logger: d.logger,
	})
	d.textfile = textfile.NewKeeper(textfile.Settings{
		Path: d.cfg.Textfile, Version: d.version, Report: d.health.Report, Changed: d.changes.follow(),
		Successor: d.successor, Logger: d.logger,
	})
	watcher := watch.New(watch.Config{
		Units:  append(unitNames(d.cfg.Workers), d.dependencyStates.units()...),
		Others: func() []string { return append(d.remotes.Units(), d.brokers.Units()...) },
		Logger: d.logger, Registry: registry,
		OnState: func(u units.State) {
			d.dependencyStates.watch.UnitChanged(u) // first, so that a worker that starts with it does not wait for it
			d.pool.UnitChanged(u)
			d.remotes.UnitChanged(u)
			d.brokers.UnitChanged(u)
		},
		OnBus: func(up bool, err error) {
			d.dependencyStates.watch.BusChanged(up)
			d.health.BusChanged(up, err)
		},
		Unmanaged: os.Getenv("INVOCATION_ID") == "", // systemd.exec(5)
	})
	d.add(registry, feature{background: []Task{{"units", watcher.Run}}, alive: watcher.Alive})
	d.add(registry, feature{alive: d.pool.Alive, background: []Task{
		{"workers", d.pool.Run},
		{"accounts", func(ctx context.Context) error { return d.accounts.Run(ctx, d.accountsChanged) }},
		{"loads", d.loads.Send}, {"queue", d.loads.Wake},
	}})
	d.add(registry, feature{background: []Task{d.once("textfile", d.textfile.Run)}})
	d.add(registry, feature{metrics: []prometheus.Collector{dependencies.NewCollector(d.health.Report)},
		serving: []Task{{"restart delays", resets.Run}}})
	d.add(registry, feature{metrics: []prometheus.Collector{remotewatch.NewCollector(d.health.Report)},
		serving: []Task{{"remotes", d.remotes.Run}}})
	d.add(registry, feature{metrics: []prometheus.Collector{brokerwatch.NewCollector(d.brokers)},
		background: []Task{{"brokers", d.brokers.Run}}})
	d.recent = newRecent(d.pool, d.changes)
	d.add(registry, feature{serving: []Task{d.once("recent", d.recent.Run)}})
	var codexes *follow.Keeper
	d.follower, codexes = d.newFollower(d.cfg)
	d.add(registry, feature{metrics: d.follower.Metrics(),
		background: []Task{{"codex turns", codexes.Run}},
		serving:    []Task{d.succeeding("codex", d.follower.Run)}})
}

// countsOf are the tokens of a request. A broker passes on the numbers of its endpoint, which may be any.
func countsOf(t brokerstate.Tokens) usage.Counts {
	const most = 1 << 40 // more than a request has
	number := func(n uint64) int64 { return int64(min(n, most)) }
	return usage.Counts{InputTokens: number(t.Input), CachedTokens: number(t.Cached), OutputTokens: number(t.Output)}
}

// accountsChanged has the rest of the service look at the store of the accounts again.
func (d *Daemon) accountsChanged() {
	d.pool.AccountsChanged()
	d.changes.reportChanged()
}

// operate serves operators.
func (d *Daemon) operate(registry prometheus.Registerer) {
	d.operators = operators.New(operators.Settings{
		Pool: d.pool, Report: d.health.Report, Changes: d.changes.control, Recent: d.recent,
		Watched: d.remotes.Watched, Usage: d.usage.Sums, KeyUse: d.server.Limiter.Used,
		Keys: d.cfg.Keys, KeyFile: d.cfg.KeyFile,
		KeysRevised: d.links.Revise, Workers: d.cfg.Workers, AccountStore: d.accountStore, Plan: d.standby.Plan,
		Lock: &d.changeLock, Predecessor: d.predecessor, Registry: registry,
		MainProcess: d.systemd.MainProcessOf, Logger: d.logger,
	})
	if d.fleet != nil { // of two processes of a reload the one that serves makes the exchanges
		d.add(registry, feature{metrics: d.fleet.Metrics(), serving: []Task{d.succeeding("database", d.fleet.Run)}})
	}
	for _, l := range d.sockets[paths.ControlSocketName] {
		d.serving = append(d.serving, d.succeeding("control", func(context.Context) error {
			d.operators.Serve(l)
			return nil
		}))
	}
}

// lend lends the logins of accounts to remotes.
func (d *Daemon) lend(registry prometheus.Registerer) {
	broker := credentials.New(d.accountStore, d.pool, d.systemd, loanOf, d.changes.follow(), d.logger)
	f := feature{metrics: []prometheus.Collector{broker}}
	for _, l := range d.sockets[paths.LoginsSocketName] {
		f.serving = append(f.serving, d.once("logins", func(ctx context.Context) error { return broker.Serve(ctx, l) }))
	}
	d.add(registry, f)
}

// loanOf has the accounts that root has lent to the own codex of a user.
func loanOf(name string) (accounts []string, lent bool) {
	r, err := here.Records(paths.HereRecords).Get(name)
	if err != nil || !r.Lends() {
		return nil, false
	}
	return r.Loan.Accounts, true
}

// plan makes the planner that starts and stops the workers by the quota of their accounts.
func (d *Daemon) plan(registry prometheus.Registerer) {
	d.standby = standby.New(d.accountStore, d.pool, d.predecessor, d.changes.follow())
	d.add(registry, feature{serving: []Task{d.succeeding("standby", d.standby.Run)}})
	d.dependencyStates.assign() // before systemd reports a dependency, it is not ready
}

// succeed makes the takeover from a predecessor and the hand-off to a successor.
func (d *Daemon) succeed(registry prometheus.Registerer, process *handoff.Predecessor, program []string) {
	m := reload.NewMetrics(registry, d.predecessor)
	d.state = &daemonState{
		pool: d.pool, accountStore: d.accountStore, server: d.server, counter: d.counter, keys: d.operators.Keys,
		metrics:  m,
		textfile: d.textfile, dependencies: d.dependencyStates.watch, remotes: d.remotes, codexes: d.follower,
	}
	d.reloader = &reloader{
		program: program, startTimeout: d.cfg.StartTimeout, notifier: d.notifier, sockets: d.sockets,
		health: d.health, metrics: m, changeLock: &d.changeLock, counter: d.counter, state: d.state,
		server: d.server, operators: d.operators, successor: d.successor, logger: d.logger,
		requests: make(chan chan<- error), settled: make(chan struct{}),
	}
	d.predecessorWatch = &predecessorWatch{
		predecessor: d.predecessor, started: d.started, counter: d.counter, changes: d.changes,
		state: d.state, textfile: d.textfile, links: d.links, recent: d.recent, logger: d.logger,
	}
	d.announcer = &announcer{
		startTimeout: d.cfg.StartTimeout, notifier: d.notifier, health: d.health, predecessor: process,
		state: d.state, lastFailure: d.reloader.lastFailure, checkAliases: d.server.Catalogue.CheckAliases,
		changed: d.changes.report, started: d.started,
	}
	d.add(registry, feature{
		background: []Task{{"predecessor", d.predecessorWatch.follow}, {"poll predecessor", d.predecessorWatch.poll}},
		serving:    []Task{{"announcer", d.announcer.run}, {"reload", d.reload}},
	})
	for _, l := range d.sockets[paths.ReloadSocket] {
		d.serving = append(d.serving, d.once("reload socket", func(ctx context.Context) error {
			return reload.Server{
				Requests: d.reloader.requests, Limit: d.cfg.StartTimeout + 2*handoffMargin, Logger: d.logger,
			}.Run(ctx, l)
		}))
	}
	if d.notifier != nil { // without a service manager, no process restarts this one
		d.serving = append(d.serving, Task{"restart delay", func(ctx context.Context) error {
			return restarts.Service{Systemd: d.systemd, Logger: d.logger}.ResetDelay(ctx, d.cfg.ResetAfter)
		}})
	}
	d.background = append(d.background, Task{"watchdog", func(ctx context.Context) error {
		return d.health.Watch(ctx, d.notifier)
	}})
}
