package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/codex/handshake"
	"codex-proxy/workers/annotations"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/codexhome"
)

const (
	// asidePrefix begins the first line of a connection that is for this process, and not for codex.
	asidePrefix = "codex-proxy "
	// leastLife is how long a token that is lent lasts at least, and refreshBound for codex's refresh of it.
	leastLife    = 5 * time.Minute
	refreshBound = 30 * time.Second
	// refreshPause is the least time between two refreshes that clients cause.
	refreshPause = time.Minute
	// aloneBound is for the line of the question, and for its answer.
	aloneBound = 5 * time.Second
)

// intercept serves a connection of the proxy by its first line.
func (s *Shim) intercept(conn net.Conn) {
	if s.answersLogin(conn) {
		return
	}
	s.requests.read(conn)
}

// answersLogin answers a question for the login. It returns false for a connection of annotations, after it
// has read the first line.
func (s *Shim) answersLogin(conn net.Conn) bool {
	if conn.SetReadDeadline(time.Now().Add(aloneBound)) != nil {
		return true
	}
	line, err := readLine(conn)
	if err != nil {
		return true
	}
	if line == annotations.Greeting {
		_ = conn.SetReadDeadline(time.Time{})
		return false
	}
	if !strings.HasPrefix(line, broker.Question) || s.tokens == nil {
		return true // a question of another version
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreshBound)
	defer cancel()
	login, err := s.tokens.token(ctx, broker.RefusedIn(line))
	if conn.SetWriteDeadline(time.Now().Add(aloneBound)) == nil {
		_ = broker.Answer(conn, login, err) // the client may have gone
	}
	return true
}

// readLine reads one line and nothing behind it.
func readLine(conn net.Conn) (string, error) {
	var line strings.Builder
	for one := make([]byte, 1); line.Len() < maxAnnotation; {
		if _, err := conn.Read(one); err != nil {
			return "", err
		}
		line.WriteByte(one[0])
		if one[0] == '\n' {
			return line.String(), nil
		}
	}
	return "", bufio.ErrTooLong
}

// tokenSource has the login of codex. Only codex refreshes it: a refresh token works once.
type tokenSource struct {
	home, socket, version string

	refreshing sync.Mutex
	refreshed  time.Time // the last refresh; under the lock
}

// answer returns the access token of codex's login. One that ends soon, or has the refused digest, is refreshed first.
func (l *tokenSource) token(ctx context.Context, refused string) (broker.Login, error) {
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
func (l *tokenSource) login(
	ctx context.Context, account func(context.Context, codexaccount.Caller) (codexaccount.Account, error),
) (broker.Login, error) {
	var now codexaccount.Account
	_, err := handshake.With(ctx, l.socket, l.version, func(conn *appserver.Conn) (err error) {
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
	token, err := codexhome.ReadAccessToken(l.home)
	if errors.Is(err, codexhome.ErrNoToken) {
		return broker.Login{}, nothing()
	}
	if err != nil {
		return broker.Login{}, err
	}
	return broker.Login{AccessToken: token.Token, AccountID: token.Account, ExpiresAt: token.Expires,
		Plan: now.Login.PlanType, Email: now.Login.Email}, nil
}

func invalid() error {
	return &broker.Error{Code: broker.LoginInvalid,
		Message: "its login is not accepted; codex-proxy accounts login NAME"}
}

func nothing() error {
	return &broker.Error{Code: broker.NoAccount,
		Message: "its worker has no ChatGPT login to lend; an API key is not lent"}
}
