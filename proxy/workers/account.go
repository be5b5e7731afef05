package workers

import (
	"bytes"
	"context"
	"sync"
	"time"

	"codex-proxy/proxy/appserver"
)

const (
	// accountInterval is how often codex is asked for its account: limits are
	// also used up elsewhere, and their windows end, while no turn tells of it.
	accountInterval = 5 * time.Minute
	// accountTimeout bounds that; codex asks the account's server.
	accountTimeout = 30 * time.Second
)

// Account is what a connected worker says of its login.
type Account struct {
	Worker string `json:"worker"`
	// Login is chatgpt, apiKey or another word of codex's; empty without one.
	Login string `json:"login"`
	// Required tells that the worker's requests need a login.
	Required bool    `json:"required"`
	Plan     string  `json:"plan,omitempty"`
	Email    string  `json:"email,omitempty"`
	Limits   []Limit `json:"limits"`
}

// account is what the worker of the current connection has told of its account.
// It is no part of the state, as nothing is decided by it.
type account struct {
	mu     sync.Mutex
	known  bool
	said   appserver.Account
	limits appserver.RateLimits
	heard  []byte // the last notification
	failed bool   // the last reading
}

// forget is for the end of a connection: the next process may have another login.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.said, a.limits, a.heard = false, appserver.Account{}, appserver.RateLimits{}, nil
}

// failing reports whether readings begin to fail.
func (a *account) failing(failed bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	begins := failed && !a.failed
	a.failed = failed
	return begins
}

// notified takes over what codex tells by itself, after a turn.
func (a *account) notified(n appserver.Notification) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Equal(n.Params, a.heard) { // as after most turns
		return
	}
	if update, ok := n.RateLimitsUpdate(); ok {
		a.limits, a.heard = a.limits.Merge(update), n.Params
	}
}

// read asks codex. What cannot be read stays as it was.
func (a *account) read(ctx context.Context, conn *appserver.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	said, err := conn.Account(ctx)
	if err != nil {
		return err
	}
	a.update(said, nil)
	if said.Login == nil || said.Login.Type != "chatgpt" { // only those have limits
		return nil
	}
	limits, err := conn.RateLimits(ctx)
	if err != nil {
		return err
	}
	a.update(said, &limits)
	return nil
}

func (a *account) update(said appserver.Account, limits *appserver.RateLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.said = true, said
	if limits != nil {
		a.limits, a.heard = *limits, nil
	}
}

// look is what is known at now; false without a connection.
func (a *account) look(now time.Time) (Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	view := Account{Required: a.said.Required, Limits: limitsAt(a.limits, now)}
	if login := a.said.Login; login != nil {
		view.Login, view.Plan, view.Email = login.Type, login.PlanType, login.Email
	}
	return view, a.known
}

// readAccount keeps the worker's account up to date. That it cannot be read, for
// want of a network say, is no fault of the worker; it is told once.
func (w *Worker) readAccount(ctx context.Context, conn *appserver.Conn) {
	err := w.account.read(ctx, conn)
	if ctx.Err() == nil && w.account.failing(err != nil) {
		w.settings.Logger.Warn("cannot read the account of a worker", "worker", w.name, "unit", w.unit, "error", err)
	}
}

// Accounts are those of the workers that are connected and have told of them.
func (p *Pool) Accounts() []Account {
	accounts := []Account{}
	for _, w := range p.workers {
		if a, known := w.account.look(time.Now()); known {
			a.Worker = w.name
			accounts = append(accounts, a)
		}
	}
	return accounts
}
