package readings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/workers/accounts"
)

// readingTimeout bounds one reading; codex asks the account's server.
const readingTimeout = 30 * time.Second

// errLoginInvalid ends a reading for which the account's server does not accept the login.
var errLoginInvalid = errors.New("the account's server does not accept the login")

// Session is the readings over one connection to the worker.
type Session struct {
	reader  *Reader
	conn    *appserver.Conn
	account codexaccount.Caller // the codex with the login
	began   time.Time
	tasks   *sync.WaitGroup // they end with the connection
}

// Begin is for the begin of a connection: its readings run as tasks.
func (r *Reader) Begin(conn *appserver.Conn, began time.Time, tasks *sync.WaitGroup) *Session {
	r.begin()
	return &Session{r, conn, conn, began, tasks}
}

// Ask makes another codex than the worker's the one with the login. It comes before the first reading.
func (s *Session) Ask(account codexaccount.Caller) { s.account = account }

// ReadDue reads the account if that is asked for or due, and sets the timer for the next
// time. A failed reading, such as one without a network, is no fault of the worker; the
// first one in a row is logged.
func (s *Session) ReadDue(ctx context.Context, timer *time.Timer) {
	r := s.reader
	f, wait := r.start(func(tried time.Time) time.Duration {
		now := time.Now()
		return r.quotas.next(r.worker, tried, now).Sub(now)
	})
	timer.Reset(wait)
	if f == nil {
		return
	}
	s.tasks.Go(func() {
		tried, err := s.read(ctx)
		if err != nil && (s.conn.Err() != nil || ctx.Err() != nil) {
			err = fmt.Errorf("%w: %w", ErrNotConnected, err)
		}
		if r.finish(tried, err) {
			r.logger.Warn("cannot read the account of a worker", "error", err)
		}
	})
}

// read reads the account of the worker, and returns when the reading of the
// account's quota began that it rests on. On an error, the known state stays.
func (s *Session) read(ctx context.Context) (begun time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, readingTimeout)
	defer cancel()
	begun = time.Now()
	account, err := codexaccount.Read(ctx, s.account)
	missing := err == nil && account.Login == nil && account.Required
	if missing || codexaccount.IsUnauthorized(err) { // auth.json may have changed since codex read it
		account, err = codexaccount.Refresh(ctx, s.account)
	}
	if codexaccount.IsUnauthorized(err) {
		err = s.invalidate(begun)
	}
	if err != nil {
		return begun, s.reader.quotas.count(s.reader.worker, err)
	}
	login := loginOf(account, begun)
	s.reader.store.Identify(s.reader.worker, login)
	switch {
	case login.Missing():
		return begun, s.reader.quotas.count(s.reader.worker, s.invalidate(begun))
	case login.Type != "chatgpt": // no other login has limits
		s.reader.store.Read(s.reader.worker, "", accounts.Quota{Source: accounts.Reading, At: begun})
		return begun, s.reader.quotas.count(s.reader.worker, nil)
	}
	return s.reader.quotas.once(ctx, s, func(begun time.Time) error { return s.readUsage(ctx, account, begun) })
}

// readUsage reads the quota. If the account's server refuses the login, codex refreshes it
// once: a reading alone makes codex refresh nothing.
func (s *Session) readUsage(ctx context.Context, account codexaccount.Account, begun time.Time) error {
	limits, err := codexaccount.ReadLimits(ctx, s.account)
	if codexaccount.IsUnauthorized(err) {
		account, err = codexaccount.Refresh(ctx, s.account)
		switch {
		case err == nil && account.Login == nil:
			return s.invalidate(begun)
		case err == nil:
			limits, err = codexaccount.ReadLimits(ctx, s.account)
		}
	}
	switch {
	case codexaccount.IsUnauthorized(err):
		return s.invalidate(begun)
	case err != nil:
		return err
	}
	s.reader.read(limits.RateLimits)
	id := cmp.Or(loginOf(account, begun).QuotaID, quotaID(limits.AccountID, account))
	s.reader.store.Read(s.reader.worker, id, quotaOf(limits, begun))
	return nil
}

func (s *Session) invalidate(at time.Time) error {
	s.reader.store.Invalidate(s.reader.worker, at)
	return errLoginInvalid
}

// loginOf is the login that codex reported at at.
func loginOf(a codexaccount.Account, at time.Time) accounts.Login {
	login := accounts.Login{Required: a.Required, At: at}
	if a.Login != nil {
		login.Type, login.Plan, login.Email = a.Login.Type, a.Login.PlanType, a.Login.Email
	}
	if a.Workspace != nil {
		login.QuotaID = quotaID(a.Workspace.AccountID, a)
	}
	return login
}

// quotaID identifies the quota: an account at ChatGPT may be a workspace, and its users have
// limits of their own. It is a hash, so that no file and no answer has the ids. It is empty
// without an account.
func quotaID(accountID string, a codexaccount.Account) string {
	if accountID == "" {
		return ""
	}
	user := a.UserID
	if user == "" && a.Login != nil {
		user = strings.ToLower(a.Login.Email)
	}
	sum := sha256.Sum256([]byte(accountID + "\x00" + user))
	return hex.EncodeToString(sum[:8])
}
