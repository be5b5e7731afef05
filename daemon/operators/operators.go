// Package operators changes the running service for people, over the control socket: the API keys, the drains of
// workers and the order of the accounts.
package operators

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/reload"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

// leaveBound is the longest that commands in progress have after a successor serves.
const leaveBound = 2 * time.Second

// Settings configure Operators.
type Settings struct {
	Pool    *workers.Pool
	Report  func() probes.Report
	Changes *control.Changes // of the state that operators see
	Recent  *recent.Recent
	// Watched is called when someone begins to watch the remotes, and the returned function when that ends.
	Watched func() (end func())
	// Usage sums up the usage of API keys.
	Usage        func(ctx context.Context, since time.Time, by []string) ([]usage.Sum, error)
	Keys         *auth.Keys
	KeyUse       func(auth.Key) (used, refused map[string]int64)
	KeyFile      string   // api_keys in the settings; empty: the credential of the unit
	KeysRevised  func()   // closes the links that the keys do not allow any more
	Workers      []string // all names
	AccountStore *accounts.Store
	Plan         func() []accounts.Step
	Lock         *reload.ChangeLock
	Predecessor  *reload.Predecessor
	Registry     prometheus.Registerer
	// MainProcess asks systemd for the service with a main process.
	MainProcess func(ctx context.Context, pid uint32) (units.MainProcess, error)
	Logger      *slog.Logger
}

// Operators serves the control socket.
type Operators struct {
	Keys   *KeyTable
	Drains *DrainTable

	server *control.Server
	logger *slog.Logger
}

// New returns operators that nothing listens to yet.
func New(s Settings) *Operators {
	o := &Operators{
		Keys: &KeyTable{
			keys: s.Keys, used: s.KeyUse, accounts: s.Workers, named: s.KeyFile, lock: s.Lock, predecessor: s.Predecessor,
			revised: s.KeysRevised, logger: s.Logger,
		},
		Drains: &DrainTable{lock: s.Lock, pool: s.Pool, predecessor: s.Predecessor},
		logger: s.Logger,
	}
	orders := &accountTable{
		accountStore: s.AccountStore, plan: s.Plan, lock: s.Lock, predecessor: s.Predecessor,
		drained: s.Pool.Drained, changed: s.Pool.AccountsChanged, logger: s.Logger,
	}
	stream := &stream{
		report: s.Report, accounts: orders.Accounts, keys: o.Keys.published, recent: s.Recent,
		changes: s.Changes, watched: s.Watched, places: make(chan struct{}, maxWatchers), patience: patience, logger: s.Logger,
	}
	o.server = control.New(control.Settings{
		Pool: s.Pool, Report: s.Report, Changes: s.Changes, Keys: o.Keys, Drains: o.Drains, Accounts: orders,
		Logger: s.Logger,
		Routes: map[string]http.HandlerFunc{
			"GET /v1/watch":      stream.serve,
			"GET /v1/history":    answerWith(s.Recent.History),
			"GET /v1/requests":   answerWith(s.Recent.Requests),
			"GET /v1/usage":      usageOf(s.Usage),
			"POST /v1/console":   consoleKeys(s.Keys),
			"POST /v1/pushes":    countPushes(s.Registry),
			"POST /v1/remote-of": remoteOf(s.MainProcess),
		},
	})
	return o
}

// answerWith answers with the current value.
func answerWith[T any](current func() T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { control.Answer(w, current()) }
}

// Serve answers operators. A failure ends nothing else.
func (o *Operators) Serve(l net.Listener) {
	if err := o.server.Serve(l); err != nil {
		o.logger.Error("codex-proxy status, drain and undrain do not work any more", "error", err)
	}
}

// Leave leaves operators to the successor: from now on, drains apply to its workers.
func (o *Operators) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	o.Shutdown(ctx)
}

// Shutdown ends the answers in progress.
func (o *Operators) Shutdown(ctx context.Context) {
	if err := o.server.Shutdown(ctx); err != nil {
		o.logger.Warn("commands were cut off", "error", err)
	}
}
