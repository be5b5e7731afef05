package workers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/workers/accounts"
)

// readingTimeout bounds one reading; codex asks the account's server.
const readingTimeout = 30 * time.Second

// errLoginInvalid ends a reading for which the account's server does not accept the login.
var errLoginInvalid = errors.New("the account's server does not accept the login")

// read reads the account of the session's worker, and returns when the reading of the
// account's quota began that it rests on. On an error, the known state stays.
func (s *session) read(ctx context.Context) (begun time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, readingTimeout)
	defer cancel()
	begun = time.Now()
	account, err := s.conn.Account(ctx)
	missing := err == nil && account.Login == nil && account.Required
	if missing || appserver.IsUnauthorized(err) { // auth.json may have changed since codex read it
		account, err = s.conn.RefreshAccount(ctx)
	}
	if appserver.IsUnauthorized(err) {
		err = s.invalidate(begun)
	}
	if err != nil {
		return begun, s.readings.count(s.worker.name, err)
	}
	login := loginOf(account, begun)
	s.worker.book.Identify(s.worker.name, login)
	switch {
	case login.Missing():
		return begun, s.readings.count(s.worker.name, s.invalidate(begun))
	case login.Type != "chatgpt": // no other login has limits
		s.worker.book.Read(s.worker.name, "", accounts.Quota{Source: accounts.Reading, At: begun})
		return begun, s.readings.count(s.worker.name, nil)
	}
	return s.readings.once(ctx, s, func(begun time.Time) error { return s.readUsage(ctx, account, begun) })
}

// readUsage reads the quota. If the account's server refuses the login, codex refreshes it
// once: a reading alone makes codex refresh nothing.
func (s *session) readUsage(ctx context.Context, account appserver.Account, begun time.Time) error {
	limits, err := s.conn.RateLimits(ctx)
	if appserver.IsUnauthorized(err) {
		account, err = s.conn.RefreshAccount(ctx)
		switch {
		case err == nil && account.Login == nil:
			return s.invalidate(begun)
		case err == nil:
			limits, err = s.conn.RateLimits(ctx)
		}
	}
	switch {
	case appserver.IsUnauthorized(err):
		return s.invalidate(begun)
	case err != nil:
		return err
	}
	s.worker.account.read(limits.RateLimits)
	id := cmp.Or(loginOf(account, begun).QuotaID, quotaID(limits.AccountID, account))
	s.worker.book.Read(s.worker.name, id, quotaOf(limits, begun))
	return nil
}

func (s *session) invalidate(at time.Time) error {
	s.worker.book.Invalidate(s.worker.name, at)
	return errLoginInvalid
}

// loginOf is the login that codex reported at at.
func loginOf(a appserver.Account, at time.Time) accounts.Login {
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
func quotaID(accountID string, a appserver.Account) string {
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
