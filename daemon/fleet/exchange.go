package fleet

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
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
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
)

const (
	// period is the time between two exchanges, and jitter how much each is off, so that hosts do not march in step.
	period = time.Second
	jitter = 0.1
	// bound is for one exchange, with a new connection if that is necessary.
	bound = 2 * time.Second
	// spread is how much later on average a host asks for each host of the fleet, at its start or when the database was
	// away: new connections cost it most.
	spread = 10 * time.Millisecond
	// tolerated is the number of exchanges that may fail before the database counts as away.
	tolerated = 1
	// forgetEvery is the number of looks for lost hosts after which one also removes old rows: every few minutes.
	forgetEvery = 300
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
	// Limits has the shares of this host.
	Limits *limits.Shares
	Usage  UsageSource
	// UsageRetention is how many days of usage are kept, today included.
	UsageRetention int
	Changed        func() // the report has changed
	// Outdated is called after an exchange without an answer while the keys are too old to be used.
	Outdated func()
	Logger   *slog.Logger
}

// Exchange asks the database once a second for the keys, and renews the lease of this host there. Meanwhile it takes
// shares of limits for requests that wait.
type Exchange struct {
	settings Settings
	session  *postgres.Session
	cache    cache
	metrics  *metrics
	usage    outgoing
	process  string // of the shares
	steady   steady

	known  int64     // the revision of the keys in force; -1 before the first exchange
	first  bool      // no exchange has had an answer yet
	hosts  int       // 0 is not known yet
	began  time.Time // the last exchange, of keys or of shares alone
	failed int       // exchanges without an answer, one after another
	kept   int       // the hosts in the cache
	unkept bool      // the cache could not be written

	mu     sync.Mutex
	report probes.Database
	logged bool // that it is away
}

// NewExchange returns an exchange that has not begun.
func NewExchange(s Settings) *Exchange {
	e := &Exchange{
		settings: s, session: postgres.NewSession(s.Server, bound), cache: cache{path: s.Cache}, known: -1, first: true,
		usage: outgoing{source: s.Usage, logger: s.Logger}, process: cryptorand.Text(),
		report: probes.Database{Server: s.Server.Address.Server(), Away: true, Since: time.Now(),
			Reason: "it has not answered yet"},
	}
	e.hosts = hostsIn(s.Cache)
	e.metrics = newMetrics(e.Report, s.Keys)
	return e
}

// Metrics returns the collectors of the exchange.
func (e *Exchange) Metrics() []prometheus.Collector { return e.metrics.all() }

// Run makes exchanges until ctx ends.
func (e *Exchange) Run(ctx context.Context) error {
	defer e.session.Close()
	defer e.settings.Limits.Leave() // the process that serves now makes the exchanges
	defer e.usage.close()
	e.rest(ctx, e.late()) // all hosts may begin at the same time
	for ctx.Err() == nil {
		e.once(ctx)
		e.rest(ctx, e.pause())
	}
	return nil
}

// rest waits until the next exchange. Meanwhile it makes exchanges for requests that wait.
func (e *Exchange) rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-e.settings.Limits.Wake():
			e.onDemand(ctx)
		}
	}
}

// onDemand makes an exchange of shares alone, not too soon after the last one.
func (e *Exchange) onDemand(ctx context.Context) {
	timer := time.NewTimer(time.Until(e.began.Add(share.Gap)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	if e.first || e.failed > 0 { // the next exchange shows whether the database is back
		e.settings.Limits.Leave()
		return
	}
	q := e.question()
	var got Answer
	err := e.session.Do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		got, err = Shares(ctx, conn, q)
		return err
	})
	e.answered(q, got, err)
	if err == nil {
		e.metrics.onDemand.Inc()
	}
}

// question begins an exchange.
func (e *Exchange) question() Question {
	e.began = time.Now()
	return Question{Host: e.settings.Host, Process: e.process, First: e.first, Known: e.known,
		Asks: e.settings.Limits.Asks(maxAsks)}
}

// answered hands the shares out.
func (e *Exchange) answered(q Question, got Answer, err error) {
	if err != nil {
		e.settings.Limits.Leave()
		return
	}
	e.settings.Limits.Answered(q.Asks, got.Shares, e.hosts)
}

// pause is the time until the next exchange.
func (e *Exchange) pause() time.Duration {
	pause := time.Duration(float64(period) * (1 - jitter + 2*jitter*rand.Float64()))
	if e.failed > 0 {
		pause += e.late()
	}
	return pause
}

// late is how much later than others this host makes a connection.
func (e *Exchange) late() time.Duration {
	return time.Duration(2 * rand.Float64() * float64(e.hosts) * float64(spread))
}

// once makes one exchange.
func (e *Exchange) once(ctx context.Context) {
	q := e.question()
	began := e.began
	q.Usage = e.usage.rows(ctx)
	// Of all hosts together, two in a second look for lost ones.
	q.Count = e.first || e.hosts == 0 || rand.IntN(e.hosts) < 2
	q.Sweep = q.Count && e.Steady()
	var got Answer
	err := Explain(e.session.Do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		got, err = Ask(ctx, conn, q)
		return err
	}))
	if ctx.Err() != nil {
		return
	}
	e.hosts = cmp.Or(got.Hosts, e.hosts)
	e.answered(q, got, err)
	if err == nil && got.Keys != "" {
		err = e.settings.Replace(got.Keys)
	}
	if err != nil {
		e.fail(err)
		return
	}
	e.metrics.done.Inc()
	e.steady.went(e.hosts)
	e.failed, e.first, e.known = 0, false, got.Revision
	e.usage.sent(ctx, q.Usage)
	e.settings.Keys.Confirm(began, e.settings.KeysMaxAge)
	e.keep(got, began)
	e.back()
	if q.Sweep && rand.IntN(forgetEvery) == 0 {
		e.forget(ctx)
	}
}

// forget removes old rows from the database. If it cannot, another host does it later.
func (e *Exchange) forget(ctx context.Context) {
	first := time.Now().UTC().AddDate(0, 0, 1-e.settings.UsageRetention).Format(time.DateOnly)
	_ = e.session.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return Forget(ctx, conn, first) })
}

// fail counts an exchange without an answer.
func (e *Exchange) fail(err error) {
	e.metrics.failed.Inc()
	e.steady.broke(err)
	if e.settings.Keys.Outdated() {
		e.settings.Outdated()
	}
	if e.failed++; e.failed > tolerated {
		e.leave(err)
		e.away(err)
	}
}

// keep keeps an answer for a restart, and logs the keys that this host cannot use.
func (e *Exchange) keep(got Answer, at time.Time) {
	if len(got.Refused) > 0 {
		e.settings.Logger.Warn("keys with limits that this version does not know are refused here",
			"key", strings.Join(got.Refused, ","))
	}
	text := got.Keys
	if text == "" && (e.hosts > 2*e.kept || e.kept > 2*e.hosts) {
		text = e.settings.Keys.Text()
	}
	if text != "" {
		text, e.kept = withHosts(text, e.hosts), e.hosts
	}
	err := e.cache.keep(text, at)
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
