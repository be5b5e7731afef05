package workers

import (
	"bytes"
	"context"
	"sync"
	"time"

	"codex-proxy/proxy/appserver"
)

const (
	// accountInterval is how often the account is read from codex: other clients use
	// up its limits, too, and the windows end, while no turn reports it.
	accountInterval = 5 * time.Minute
	// accountTimeout bounds one reading; codex asks the account's server.
	accountTimeout = 30 * time.Second
)

// Account is the login of a connected worker, as codex reports it.
type Account struct {
	Worker string `json:"worker"`
	// Login is chatgpt, apiKey or another word of codex's; empty without one.
	Login string `json:"login"`
	// Required means that the worker's requests need a login.
	Required bool    `json:"required"`
	Plan     string  `json:"plan,omitempty"`
	Email    string  `json:"email,omitempty"`
	Limits   []Limit `json:"limits"`
}

// Accounts are those of the workers that are connected and have reported one.
func (r roster) Accounts() []Account {
	accounts := []Account{}
	for _, w := range r {
		if a, known := w.account.look(time.Now()); known {
			a.Worker = w.name
			accounts = append(accounts, a)
		}
	}
	return accounts
}

// account is what the worker of the current connection has reported of its account.
// It is no part of the state, as nothing is decided by it.
type account struct {
	mu     sync.Mutex
	known  bool
	login  appserver.Account
	limits appserver.RateLimits
	last   []byte // the parameters of the last notification
	failed bool   // the last reading
}

// forget is for the end of a connection: the next process may have another login.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.login, a.limits, a.last = false, appserver.Account{}, appserver.RateLimits{}, nil
}

// beginsToFail records the result of a reading and reports whether it is the first
// one that failed.
func (a *account) beginsToFail(failed bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	begins := failed && !a.failed
	a.failed = failed
	return begins
}

// notified takes over what codex reports by itself, after a turn.
func (a *account) notified(n appserver.Notification) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Equal(n.Params, a.last) { // as after most turns
		return
	}
	if update, ok := n.RateLimitsUpdate(); ok {
		a.limits, a.last = a.limits.Merge(update), n.Params
	}
}

// read reads the account from codex. On an error the rest stays as it was.
func (a *account) read(ctx context.Context, conn *appserver.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	login, err := conn.Account(ctx)
	if err != nil {
		return err
	}
	a.update(login, nil)
	if login.Login == nil || login.Login.Type != "chatgpt" { // no other login has limits
		return nil
	}
	limits, err := conn.RateLimits(ctx)
	if err != nil {
		return err
	}
	a.update(login, &limits)
	return nil
}

func (a *account) update(login appserver.Account, limits *appserver.RateLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.login = true, login
	if limits != nil {
		a.limits, a.last = *limits, nil
	}
}

// look is what is known at now; false without a connection.
func (a *account) look(now time.Time) (Account, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	view := Account{Required: a.login.Required, Limits: limitsAt(a.limits, now)}
	if login := a.login.Login; login != nil {
		view.Login, view.Plan, view.Email = login.Type, login.PlanType, login.Email
	}
	return view, a.known
}

// readAccount keeps the worker's account up to date. A failed reading, such as one
// without a network, is no fault of the worker; the first one in a row is logged.
func (s *session) readAccount(ctx context.Context) {
	err := s.worker.account.read(ctx, s.conn)
	if ctx.Err() == nil && s.worker.account.beginsToFail(err != nil) {
		s.worker.logger.Warn("cannot read the account of a worker", "error", err)
	}
}
