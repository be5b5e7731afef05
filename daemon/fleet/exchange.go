package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/postgres"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
)

const (
	// period is the time between two exchanges, and jitter how much each is off, so that hosts do not march in step.
	period = time.Second
	jitter = 0.1
	// bound is for one exchange, with a new connection if that is necessary.
	bound = 2 * time.Second
	// spread is how much later on average a host asks again for each host of the fleet, when the database was away: new
	// connections cost it most.
	spread = 10 * time.Millisecond
	// tolerated is the number of exchanges that may fail before the database counts as away.
	tolerated = 1
)

// Settings configure an Exchange.
type Settings struct {
	Server     postgres.Server
	Host       Host
	Keys       *auth.Keys
	KeysMaxAge time.Duration
	Cache      string // the file with the last known keys
	// Replace puts the text of a key file into force.
	Replace func(text string) error
	Changed func() // the report has changed
	// Outdated is called after an exchange without an answer while the keys are too old to be used.
	Outdated func()
	Logger   *slog.Logger
}

// Exchange asks the database once a second for the keys, and renews the lease of this host there.
type Exchange struct {
	settings Settings
	session  *postgres.Session
	cache    cache
	metrics  *metrics
	steady   steady

	known  int64 // the revision of the keys in force; -1 before the first exchange
	hosts  int
	failed int  // exchanges without an answer, one after another
	unkept bool // the cache could not be written

	mu     sync.Mutex
	report probes.Database
	logged bool // that it is away
}

// NewExchange returns an exchange that has not begun.
func NewExchange(s Settings) *Exchange {
	e := &Exchange{
		settings: s, session: postgres.NewSession(s.Server, bound), cache: cache{path: s.Cache}, known: -1,
		report: probes.Database{Server: s.Server.Address.Server(), Away: true, Since: time.Now(),
			Reason: "it has not answered yet"},
	}
	e.metrics = newMetrics(e.Report, s.Keys)
	return e
}

// Metrics returns the collectors of the exchange.
func (e *Exchange) Metrics() []prometheus.Collector { return e.metrics.all() }

// Run makes exchanges until ctx ends.
func (e *Exchange) Run(ctx context.Context) error {
	defer e.session.Close()
	for ctx.Err() == nil {
		e.once(ctx)
		timer := time.NewTimer(e.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

// pause is the time until the next exchange.
func (e *Exchange) pause() time.Duration {
	pause := time.Duration(float64(period) * (1 - jitter + 2*jitter*rand.Float64()))
	if e.failed > 0 {
		pause += time.Duration(2 * rand.Float64() * float64(e.hosts) * float64(spread))
	}
	return pause
}

// once makes one exchange.
func (e *Exchange) once(ctx context.Context) {
	began := time.Now()
	var got answer
	err := e.session.Do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		got, err = ask(ctx, conn, e.settings.Host, e.known)
		return err
	})
	if ctx.Err() != nil {
		return
	}
	if err == nil && got.keys != "" {
		err = e.settings.Replace(got.keys)
	}
	if err != nil {
		e.metrics.failed.Inc()
		e.steady.broke(err)
		if e.settings.Keys.Outdated() {
			e.settings.Outdated()
		}
		if e.failed++; e.failed > tolerated {
			e.leave(err)
			e.away(err)
		}
		return
	}
	e.metrics.done.Inc()
	e.steady.went(got.hosts)
	e.failed, e.hosts, e.known = 0, got.hosts, got.revision
	e.settings.Keys.Confirm(began, e.settings.KeysMaxAge)
	e.keep(got, began)
	e.back()
}

// keep keeps an answer for a restart, and logs what this host cannot use.
func (e *Exchange) keep(got answer, at time.Time) {
	if len(got.refused) > 0 {
		e.settings.Logger.Warn("keys with limits that this version does not know are refused here",
			"key", strings.Join(got.refused, ","))
	}
	err := e.cache.keep(got.keys, at)
	if err != nil && !e.unkept {
		e.settings.Logger.Warn("the keys of the database are not kept for a restart", "error", err)
	}
	e.unkept = err != nil
}

// leave closes a connection to a server that refuses, as one does that is a standby now: the relay ends without a
// connection, and the next one resolves the name anew.
func (e *Exchange) leave(err error) {
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		e.session.Close()
	}
}

// Report is the state of the database for the report of the service; nil without an exchange.
func (e *Exchange) Report() *probes.Database {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	report := e.report
	return &report
}

// away publishes that the database does not answer. It is logged once.
func (e *Exchange) away(err error) {
	e.mu.Lock()
	known := e.report.Away && e.report.Reason == err.Error()
	logged := e.logged
	if !e.report.Away {
		e.report.Since = time.Now()
	}
	e.report.Away, e.report.Reason, e.logged = true, err.Error(), true
	e.mu.Unlock()
	if !logged {
		e.settings.Logger.Warn("the database is away", "server", e.settings.Server.Address.Server(), "error", err)
	}
	if !known {
		e.settings.Changed()
	}
}

// back publishes that the database answers.
func (e *Exchange) back() {
	e.mu.Lock()
	was := e.report
	if was.Away {
		e.report, e.logged = probes.Database{Server: was.Server, Since: time.Now()}, false
	}
	e.mu.Unlock()
	if was.Away {
		e.settings.Logger.Info("the database is in use", "server", was.Server,
			"elapsed_ms", time.Since(was.Since).Milliseconds())
		e.settings.Changed()
	}
}
