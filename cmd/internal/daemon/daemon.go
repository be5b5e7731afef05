// Package daemon is everything that runs in codex-proxy.service.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/cmd/internal/textfile"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
	"codex-proxy/proxy/api"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/fault"
	"codex-proxy/proxy/fetch"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/traces"
	"codex-proxy/proxy/usage"
	"codex-proxy/proxy/workers"
	"codex-proxy/units"
)

// Daemon is everything that runs in codex-proxy.service.
type Daemon struct {
	cfg        *config.Config
	version    string
	logger     *slog.Logger
	notifier   *notify.Notifier
	handoff    *succession
	keyTable   keyTable
	sockets    notify.Sockets
	listeners  []net.Listener // those of the API
	pool       *workers.Pool
	watcher    *units.Watcher
	manager    *units.Manager
	tracker    *probes.Tracker
	metrics    *metrics
	textfile   *textfile.Writer // nil: none is written
	usage      *usage.Store
	responses  *stored.Store  // nil: none is kept
	traces     *traces.Tracer // nil: there are none
	server     *api.API
	control    *control.Server
	changed    chan struct{} // holds a token when the report may have changed
	finishing  atomic.Bool   // the ends of turns are waited for
	turns      chan struct{} // likewise, for tellInflight
	places     chan struct{} // holds a token when another process may have given places back
	neighbours neighbours
	stuck      atomic.Pointer[string]

	newsHeard atomic.Uint64 // from the successor
}

// New is the composition root. It starts nothing.
func New(cfg *config.Config, logger *slog.Logger, notifier *notify.Notifier, predecessor *handoff.Predecessor, version string) (*Daemon, error) {
	d := &Daemon{cfg: cfg, version: version, logger: logger, notifier: notifier, manager: units.NewManager(), changed: make(chan struct{}, 1),
		turns: make(chan struct{}, 1), places: make(chan struct{}, 1), neighbours: newNeighbours()}
	d.keyTable.daemon = d
	var err error
	if d.handoff, err = newSuccession(predecessor); err != nil {
		return nil, err
	}
	predecessor.Attach(d.notifier, logger)
	if d.sockets, err = sockets(cfg, predecessor, logger); err != nil {
		return nil, err
	}
	if d.listeners, err = listeners(cfg, d.sockets); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	d.metrics = newMetrics(registry, d)
	d.tracker = probes.NewTracker(time.Now(), d.flipped)
	d.textfile = d.newTextfile()
	d.pool = d.newPool()
	d.watcher = units.NewWatcher(units.Config{
		Units: unitNames(cfg.Workers), Logger: logger, Registry: registry, OnState: d.pool.UnitChanged, OnBus: d.heardBus,
		Unmanaged: os.Getenv("INVOCATION_ID") == "", // systemd.exec(5)
	})
	d.usage = newUsage(cfg, registry, logger)
	d.responses = openResponses(cfg, registry, logger)
	d.traces = newTraces(cfg, version, registry, logger)
	d.server = api.New(api.Settings{
		Pool: d.pool, Report: d.handled, Keys: cfg.Keys, Usage: d.usage, Claim: d.claim, OnKeyUse: d.touchTurns, Aliases: cfg.Aliases, CORSOrigins: cfg.CORSOrigins,
		Images: d.images(registry), BodyLimit: cfg.BodyLimit, RequestMemory: cfg.RequestMemory, QueueTimeout: cfg.QueueTimeout,
		IdleTimeout: cfg.IdleTimeout, RequestTimeout: cfg.RequestTimeout, Keepalive: cfg.Keepalive,
		ThreadCache: cfg.ThreadCache, Responses: d.responses, Traces: d.traces, Registry: registry, Logger: logger,
	})
	d.control = control.New(d.pool, d.report, &d.keyTable, drainTable{d}, logger)
	return d, nil
}

const (
	// threadsAhead is how many threads a worker has ready at most, of 2 MiB each.
	threadsAhead = 16
	// maxBacklog is how many bytes of answers may wait for slow clients, and a quarter of
	// request_memory is.
	maxBacklog = 128 << 20
)

func (d *Daemon) newPool() *workers.Pool {
	settings := workers.Settings{
		MaxInflight: d.cfg.MaxInflight, HandshakeTimeout: d.cfg.HandshakeTimeout, ResetAfter: d.cfg.ResetAfter,
		Client: appserver.Options{
			Logger: d.logger, ClientName: "codex-proxy", ClientVersion: d.version,
			Prestart: min(d.cfg.ThreadCache, threadsAhead), Backlog: appserver.NewBacklog(min(maxBacklog, d.cfg.RequestMemory/4)),
		},
		Runs: units.WorkerRuns, ResetFailed: d.manager.ResetFailed, OnChange: d.onChange, OnTurnEnd: d.onTurnEnd, Claim: d.claim, Logger: d.logger,
	}
	all := make([]*workers.Worker, 0, len(d.cfg.Workers))
	for _, name := range d.cfg.Workers {
		all = append(all, workers.New(name, d.cfg.Socket(name), settings))
	}
	return workers.NewPool(all, workers.Queue{Limit: d.cfg.QueueLimit, Timeout: d.cfg.QueueTimeout}, d.onChange)
}

// images asks codex-proxy-fetch.service, which alone has a network.
func (d *Daemon) images(registry prometheus.Registerer) intake.Images {
	if !d.cfg.Images.Fetch {
		return nil
	}
	return fetch.NewClient(d.cfg.FetchSocket(), FetchLimits(&d.cfg.Images), registry, d.logger)
}

// FetchLimits returns the limits that both sides of the fetch socket enforce.
func FetchLimits(images *config.Images) fetch.Limits {
	return fetch.Limits{Bytes: images.MaxBytes, Time: images.Timeout, Allow: images.AllowPrivate}
}

func unitNames(names []string) []string {
	full := make([]string, 0, len(names))
	for _, name := range names {
		full = append(full, units.Worker(name))
	}
	return full
}

// listeners are those of the API.
func listeners(cfg *config.Config, sockets notify.Sockets) ([]net.Listener, error) {
	ls, err := sockets.Listeners(paths.HTTPSocketName)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	return ls, checkExposure(ls, cfg)
}

// ErrExposed is a fault of the configuration: trying again does not mend it.
var ErrExposed = errors.New("anyone could use it")

// checkExposure keeps an endpoint without keys off the network, now and when its
// last key is revoked.
func checkExposure(ls []net.Listener, cfg *config.Config) error {
	i := slices.IndexFunc(ls, exposed)
	if i < 0 {
		return nil
	}
	if cfg.Keys.Empty() {
		return fmt.Errorf("cannot listen on %s without API keys: %w; run `codex-proxy keys add NAME`, or listen on 127.0.0.1", ls[i].Addr(), ErrExposed)
	}
	cfg.Keys.Require()
	return nil
}

// Run is the daemon's life. Every goroutine that outlives a call is started here.
func (d *Daemon) Run(ctx context.Context, signals <-chan os.Signal) error {
	defer d.manager.Close()
	limitMemory(d.cfg.RequestMemory)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background, stop := context.WithCancel(context.Background())
	defer stop()
	grace, hasten := context.WithCancel(background)
	defer hasten()
	var g errgroup.Group
	failed := make(chan error, 1)
	start := func(task func() error) {
		g.Go(func() error {
			err := task()
			if err != nil {
				select {
				case failed <- err:
				default: // the first failure is the one that ends us
				}
			}
			return err
		})
	}
	start(func() error { return d.heed(background, signals, cancel, hasten) })
	start(func() error { return d.watcher.Run(background) })
	start(func() error { return d.pool.Run(background) })
	start(func() error { return d.usage.Run(background) })
	start(func() error { return d.keepTextfile(background) })
	if d.responses != nil {
		defer d.responses.Close() //nolint:errcheck // what it leaves behind, the next Open puts in order
		start(func() error { return d.responses.Run(background) })
	}
	if d.traces != nil {
		start(func() error { return d.traces.Run(background) })
	}
	for _, l := range d.listeners {
		start(func() error { return d.serve(ctx, l) })
	}
	for _, l := range d.sockets[paths.ControlSocketName] {
		start(func() error { return d.serveControl(ctx, l) })
	}
	start(func() error { return d.watch(background) })
	for _, l := range d.listeners {
		d.logger.Info("listening", "address", l.Addr().String(), "workers", len(d.cfg.Workers), "version", d.version)
	}
	if d.handoff.predecessor == nil { // which knows the keys in force
		d.logKeyless()
	}
	start(func() error { return d.announce(ctx) })
	start(func() error { return d.awaitPredecessor(background) })
	start(func() error { return d.tellInflight(background) })
	start(func() error { return d.askForTurns(background) })
	start(func() error { return d.wakeQueues(background) })
	start(func() error { return d.serveReloads(ctx) })
	start(func() error { return d.resetRamp(ctx) })
	start(func() error {
		defer close(d.handoff.settled)
		return d.awaitReload(ctx)
	})
	var cause error
	select {
	case cause = <-failed:
	case <-ctx.Done():
	case <-d.handoff.replaced:
	}
	stopped := ctx.Err() != nil
	cancel()
	<-d.handoff.settled // a hand-off has gone too far, or it does not happen
	if d.replaced() {
		if stopped { // what was meant for the main process came to us
			d.handoff.successor.Stop()
		}
		d.retire(background, grace, hasten)
	} else {
		d.drain(background, grace)
	}
	stop()
	return errors.Join(cause, g.Wait())
}

func (d *Daemon) onChange() {
	d.control.Changed()
	if d.textfile != nil {
		d.textfile.Changed()
	}
	touch(d.changed)
	d.touchTurns()
}

// onTurnEnd is for those who wait for turns to end: to look at all workers for each
// of them would make turns dearer the more workers there are.
func (d *Daemon) onTurnEnd() {
	d.control.Changed()
	d.touchTurns()
	if d.finishing.Load() {
		d.onChange()
	}
}

// report is the one picture of health that everything publishes.
func (d *Daemon) report() probes.Report { return d.tracker.Observe(d.snapshot()) }

// handled is the report for an HTTP handler, on its goroutine.
func (d *Daemon) handled() probes.Report {
	fault.Point("handler")
	return d.report()
}

func (d *Daemon) heardBus(up bool, err error) {
	fault.Point("watcher") // this is the watcher's goroutine
	switch {
	case up:
		d.logger.Info("systemd is heard over D-Bus")
	case errors.Is(err, units.ErrNoBus):
		d.logger.Warn("no system bus here: readiness follows the handshake alone, and nobody restarts a worker")
	default:
		d.logger.Warn("systemd cannot be heard over D-Bus: connected workers stay ready", "error", err)
	}
	d.pool.BusChanged(up, err)
}

func (d *Daemon) flipped(f probes.Flip) {
	level := slog.LevelInfo
	if !f.Ready {
		level = slog.LevelWarn
	}
	ready := fmt.Sprint(f.Ready)
	d.metrics.flips.WithLabelValues(ready, string(f.Reason)).Inc()
	d.logger.Log(context.Background(), level, "readiness changed", "readiness", ready, "reason", string(f.Reason),
		"elapsed_ms", f.Elapsed.Milliseconds(), "details", f.Details)
}
