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
	Worker                string
	Home, Socket, Version string // CODEX_HOME, the socket of codex, and our own version

	refreshing sync.Mutex
	// Under the lock:
	refreshed time.Time // when codex was last asked for a refresh
	renewed   string    // the digest of the token that a refresh has brought last
	failure   error     // of the last refresh; nil: codex has answered

	// ask asks codex for its account; in a test alone it is another one than asked.
	ask func(context.Context, reading) (codexaccount.Account, error)
}

// reading is a request for the account of codex.
type reading func(context.Context, codexaccount.Caller) (codexaccount.Account, error)

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
		switch fresh, err := l.refresh(ctx, login); {
		case err == nil:
			login = fresh
		case broker.CodeOf(err) != "" || !login.Lasts(time.Now(), 0) || refused != "":
			return broker.Login{}, err
		}
	}
	digest := broker.Digest(login.AccessToken)
	switch {
	case refused == digest && digest == l.renewed:
		return broker.Login{}, &broker.Error{Code: broker.LoginInvalid, Message: "its new token was refused as well; " + l.again(),
			RetryAt: l.refreshed.Add(refreshPause)}
	case refused == digest:
		return broker.Login{}, l.notRefreshed("its token was refused")
	case !login.Lasts(time.Now(), 0):
		return broker.Login{}, l.notRefreshed("its token has expired")
	}
	return login, nil
}

// refresh has codex refresh its login, which is old.
func (l *Tokens) refresh(ctx context.Context, old broker.Login) (broker.Login, error) {
	fresh, err := l.login(ctx, func(ctx context.Context, codex codexaccount.Caller) (codexaccount.Account, error) {
		l.refreshed = time.Now() // codex has started: it may use up the refresh token, whatever it answers
		return codexaccount.Refresh(ctx, codex)
	})
	if l.failure = err; err == nil && fresh.AccessToken != old.AccessToken {
		l.renewed = broker.Digest(fresh.AccessToken)
	}
	return fresh, err
}

// notRefreshed is the answer while the login may hold: codex has none any more once the server has refused it.
func (l *Tokens) notRefreshed(text string) error {
	text += ", and codex has not got another one yet"
	if l.failure != nil {
		text += ": " + l.failure.Error()
	}
	return &broker.Error{Code: broker.Unavailable, Message: text, RetryAt: l.refreshed.Add(refreshPause)}
}

func useful(login broker.Login, refused string) bool {
	return login.Lasts(time.Now(), leastLife) && broker.Digest(login.AccessToken) != refused
}

// asked asks the codex of the socket.
func (l *Tokens) asked(ctx context.Context, account reading) (now codexaccount.Account, err error) {
	_, err = handshake.With(ctx, l.Socket, l.Version, func(conn *appserver.Conn) (err error) {
		now, err = account(ctx, conn)
		return err
	})
	return now, err
}

// login asks codex for its account, and then reads the token of that.
func (l *Tokens) login(ctx context.Context, account reading) (broker.Login, error) {
	ask := l.asked
	if l.ask != nil {
		ask = l.ask
	}
	now, err := ask(ctx, account)
	switch {
	case codexaccount.IsUnauthorized(err):
		return broker.Login{}, l.invalid()
	case err != nil:
		return broker.Login{}, fmt.Errorf("codex does not tell its account: %w", err)
	case !now.Required:
		return broker.Login{}, &broker.Error{Code: broker.NoAccount,
			Message: "its worker needs no login, and has none to lend"}
	case now.Login == nil:
		return broker.Login{}, l.invalid()
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
	if token.Account == "" { // a token without an account is an API key
		return broker.Login{}, &broker.Error{Code: broker.LoginInvalid,
			Message: "its login names no account of ChatGPT; " + l.again()}
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
		return broker.Login{}, &broker.Error{Code: broker.LoginInvalid, Message: "OpenAI refuses its API key; " + l.again()}
	case key != "":
		return broker.Login{AccessToken: key}, nil
	}
	return l.Token(ctx, refused)
}

// again is the remedy for a login that does not hold.
func (l *Tokens) again() string { return "codex-proxy accounts login " + l.Worker }

func (l *Tokens) invalid() error {
	return &broker.Error{Code: broker.LoginInvalid,
		Message: "its login is not accepted; " + l.again()}
}

func nothing() error {
	return &broker.Error{Code: broker.NoAccount,
		Message: "its worker has no ChatGPT login to lend; an API key is not lent"}
}
