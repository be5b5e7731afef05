// Package login hands out the access tokens of codex's login, and keeps its refresh token to codex. A worker's process
// answers so for its codex. With network = "model" a unit of its own does, codex-login@.service, which runs a codex for
// the login alone.
package login

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/codex/handshake"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/codexhome"
)

const (
	// leastLife is how long a token that is lent lasts at least.
	leastLife = 5 * time.Minute
	// refreshPause is the least time between two refreshes that clients cause.
	refreshPause = time.Minute
)

// Tokens has the login of codex. Only codex refreshes it: a refresh token works once.
type Tokens struct {
	Home, Socket, Version string // CODEX_HOME, the socket of codex, and our own version

	refreshing sync.Mutex
	refreshed  time.Time // the last refresh; under the lock
}

// Token returns the access token of codex's login. One that ends soon, or has the refused digest, is refreshed first.
func (l *Tokens) Token(ctx context.Context, refused string) (broker.Login, error) {
	login, err := l.login(ctx, codexaccount.Read)
	if err != nil || useful(login, refused) {
		return login, err
	}
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	login, err = l.login(ctx, codexaccount.Read) // another client may have had it refreshed
	if err != nil || useful(login, refused) {
		return login, err
	}
	if time.Since(l.refreshed) >= refreshPause {
		l.refreshed = time.Now()
		switch fresh, err := l.login(ctx, codexaccount.Refresh); {
		case err == nil:
			login = fresh
		case broker.CodeOf(err) != "" || !login.Lasts(time.Now(), 0) || refused != "":
			return broker.Login{}, err
		}
	}
	switch {
	case refused != "" && broker.Digest(login.AccessToken) == refused:
		err = errors.New("its token was refused, and codex has no other one")
	case !login.Lasts(time.Now(), 0):
		err = errors.New("its token has expired, and codex cannot refresh it")
	default:
		return login, nil
	}
	return broker.Login{}, &broker.Error{Code: broker.LoginInvalid, Message: err.Error(),
		RetryAt: l.refreshed.Add(refreshPause)}
}

func useful(login broker.Login, refused string) bool {
	return login.Lasts(time.Now(), leastLife) && broker.Digest(login.AccessToken) != refused
}

// login asks codex for its account, and then reads the token of that.
func (l *Tokens) login(
	ctx context.Context, account func(context.Context, codexaccount.Caller) (codexaccount.Account, error),
) (broker.Login, error) {
	var now codexaccount.Account
	_, err := handshake.With(ctx, l.Socket, l.Version, func(conn *appserver.Conn) (err error) {
		now, err = account(ctx, conn)
		return err
	})
	switch {
	case codexaccount.IsUnauthorized(err):
		return broker.Login{}, invalid()
	case err != nil:
		return broker.Login{}, fmt.Errorf("codex does not tell its account: %w", err)
	case !now.Required:
		return broker.Login{}, &broker.Error{Code: broker.NoAccount,
			Message: "its worker needs no login, and has none to lend"}
	case now.Login == nil:
		return broker.Login{}, invalid()
	case now.Login.Type != "chatgpt":
		return broker.Login{}, nothing()
	}
	token, err := codexhome.ReadAccessToken(l.Home)
	if errors.Is(err, codexhome.ErrNoToken) {
		return broker.Login{}, nothing()
	}
	if err != nil {
		return broker.Login{}, err
	}
	return broker.Login{AccessToken: token.Token, AccountID: token.Account, ExpiresAt: token.Expires,
		Plan: now.Login.PlanType, Email: now.Login.Email}, nil
}

// Own is Token for the worker of the login itself, which may have an API key. That is a token without an account.
func (l *Tokens) Own(ctx context.Context, refused string) (broker.Login, error) {
	key, err := codexhome.ReadAPIKey(l.Home)
	switch {
	case err != nil:
		return broker.Login{}, err
	case key != "" && broker.Digest(key) == refused:
		return broker.Login{}, &broker.Error{Code: broker.LoginInvalid, Message: "OpenAI refuses its API key; " + again}
	case key != "":
		return broker.Login{AccessToken: key}, nil
	}
	return l.Token(ctx, refused)
}

// again is the remedy for a login that does not hold.
const again = "codex-proxy accounts login NAME"

func invalid() error {
	return &broker.Error{Code: broker.LoginInvalid,
		Message: "its login is not accepted; " + again}
}

func nothing() error {
	return &broker.Error{Code: broker.NoAccount,
		Message: "its worker has no ChatGPT login to lend; an API key is not lent"}
}
