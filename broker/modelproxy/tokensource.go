package modelproxy

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/internal/unixtime"
	"codex-proxy/workers/broker"
)

const (
	// answerBound is how long a question to codex-proxy.service may take, which may be restarting, or starting a
	// worker.
	answerBound = 30 * time.Second
	// shortWait is the longest wait for an account within a request of codex: longer than the minute in which an
	// account does not change again.
	shortWait = 70 * time.Second
	// spare is how long a token has to last at least to be sent.
	spare = time.Minute
	// again is the pause between two questions for an account while none serves, which cost nothing of a quota.
	again = 5 * time.Second
)

// Service chooses the account; a *logins.Client is one.
type Service interface {
	Acquire(ctx context.Context, ask broker.Ask) (broker.Grant, error)
	ReportLimits(account string, limits json.RawMessage)
	Changed() <-chan struct{}
}

// token is the login that is lent now.
type token struct {
	account string
	broker.Login
}

// TokenSource has the login of one account at a time, in memory alone. It never chooses an account itself.
type TokenSource struct {
	Service  Service
	Accounts []string // that may serve; empty: all
	// Switched learns of each change of the account.
	Switched func(from, to, why string)
	Logger   *slog.Logger

	token  string        // of the model proxy
	asking chan struct{} // has a token while a question is under way

	mu     sync.Mutex
	held   token
	denied *broker.Error // why no account serves; nil: held does
	asked  time.Time     // when the service was asked last
	used   bool          // a request came since then
	// refused is the held token while another one is asked for in its place: the unit of a login may have to start.
	refused string
}

// NewTokenSource makes a TokenSource for a remote that hold has served last; empty: none has.
func NewTokenSource(service Service, accounts []string, hold string, logger *slog.Logger) *TokenSource {
	return &TokenSource{
		Service: service, Accounts: accounts, Switched: func(string, string, string) {}, Logger: logger,
		asking: make(chan struct{}, 1), held: token{account: hold},
	}
}

// now is the held account, and the reason if it does not serve.
func (b *TokenSource) now() (token, *broker.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.denied
}

// acquire is the login for a request.
func (b *TokenSource) acquire(ctx context.Context) (token, error) {
	b.mu.Lock()
	b.used = true
	refused := b.refused
	b.mu.Unlock()
	held, denied := b.now()
	if denied == nil && held.Lasts(time.Now(), spare) && held.AccessToken != refused {
		return held, nil
	}
	return b.ask(ctx, held, broker.Ask{Have: denied != nil && held.Lasts(time.Now(), spare), Turn: true})
}

// replace is the login after the service of the accounts has refused a request with another one.
func (b *TokenSource) replace(ctx context.Context, was token, why refusal) (token, error) {
	return b.ask(ctx, was, broker.Ask{
		Refused: why.kind, ResetsAt: why.resetsAt, Token: broker.Digest(was.AccessToken), Turn: true,
	})
}

// ask asks for another login than was, once for all requests that need one. The wait for an account that is free soon
// belongs to it.
func (b *TokenSource) ask(ctx context.Context, was token, ask broker.Ask) (token, error) {
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	case <-ctx.Done():
		return token{}, context.Cause(ctx)
	}
	if ask.Refused != "" {
		b.refuse(was.AccessToken)
		defer b.refuse("")
	}
	for {
		held, denied := b.now()
		if !ask.Waits && denied == nil && held.AccessToken != was.AccessToken && held.Lasts(time.Now(), spare) {
			return held, nil // another request has asked meanwhile
		}
		err := b.request(ctx, ask)
		if err == nil {
			held, _ = b.now()
			return held, nil
		}
		if ask.Refused == broker.UsageLimit { // it is known now, and may end meanwhile
			ask.Refused, ask.ResetsAt, ask.Token, ask.Waits = "", 0, "", true
		}
		wait := time.Until(err.RetryAt)
		if !ask.Turn || !ofQuota(err) || err.RetryAt.IsZero() || wait > shortWait {
			return token{}, err
		}
		select {
		case <-time.After(max(wait, time.Second)):
		case <-ctx.Done():
			return token{}, context.Cause(ctx)
		}
	}
}

// refuse has later requests wait for another token than this one.
func (b *TokenSource) refuse(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = token
}

// request asks the service once.
func (b *TokenSource) request(ctx context.Context, ask broker.Ask) *broker.Error {
	held, _ := b.now()
	ask.Accounts, ask.Hold = b.Accounts, held.account
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	g, err := b.Service.Acquire(ctx, ask)
	refused := errorOf(err)
	if err == nil && ask.Refused == broker.UsageLimit && g.Account == held.account {
		refused = &broker.Error{Code: broker.QuotaExhausted, Message: "account " + g.Account + " has no quota left",
			RetryAt: unixtime.Of(ask.ResetsAt)}
	}
	b.mu.Lock()
	b.asked, b.used = time.Now(), false
	if refused != nil {
		if ask.Turn || b.denied != nil || !b.held.Lasts(time.Now(), spare) || !passing(refused) {
			b.denied = refused
		}
		b.mu.Unlock()
		return refused
	}
	b.held.account, b.denied = g.Account, nil
	if !g.Kept {
		b.held.Login = g.Login
	}
	b.mu.Unlock()
	if held.account != "" && held.account != g.Account {
		b.Switched(held.account, g.Account, cmp.Or(g.Why, string(ask.Refused)))
	}
	return nil
}

// passing means that the held account serves on: the service does not report it.
func passing(err *broker.Error) bool {
	return err.Code == broker.Unavailable || err.Code == broker.Held || err.Code == broker.TooMany
}

// ofQuota means that an account may serve later.
func ofQuota(err *broker.Error) bool {
	return err.Code == broker.QuotaExhausted || err.Code == broker.Held
}

func errorOf(err error) *broker.Error {
	if err == nil {
		return nil
	}
	e := &broker.Error{Code: broker.Unavailable, Message: err.Error()}
	_ = errors.As(err, &e)
	return e
}

// Settle asks whether another account serves: after a turn, if the service has reported so, if none does, or if a turn
// waits for quota. Then an account that is held proves nothing: a request of a person may have borrowed it without
// quota.
func (b *TokenSource) Settle(ctx context.Context, waits bool) (why string, until time.Time) {
	held, denied := b.now()
	b.mu.Lock()
	due := b.used || waits
	if held.AccessToken == "" || denied != nil {
		due = time.Since(b.asked) >= again
	}
	b.mu.Unlock()
	select {
	case <-b.Service.Changed():
		due = true
	default:
	}
	if !due {
		return b.Denied()
	}
	_, err := b.ask(ctx, held, broker.Ask{Have: held.Lasts(time.Now(), spare), Waits: waits})
	if waits { // a request of a person may have an account again already
		return reason(errorOf(err))
	}
	if err != nil && ctx.Err() == nil && denied == nil {
		b.Logger.Warn("no account is lent to a remote", "error", err)
	}
	return b.Denied()
}

// Open asks for the first login. Without one codex starts all the same: its people see why, and its turns wait.
func (b *TokenSource) Open(ctx context.Context) {
	if _, err := b.ask(ctx, token{}, broker.Ask{}); err != nil && ctx.Err() == nil {
		b.Logger.Warn("no account is lent to a remote", "error", err)
	}
}

// Denied is why no account serves, and until when, if that is known; empty if one does.
func (b *TokenSource) Denied() (why string, until time.Time) {
	_, denied := b.now()
	return reason(denied)
}

func reason(denied *broker.Error) (why string, until time.Time) {
	if denied == nil {
		return "", time.Time{}
	}
	return denied.Message, denied.RetryAt
}

// standInAccount is the account of the login that codex has: the same one whichever serves, because codex ends a turn
// that runs when its login becomes one of another account.
const standInAccount = "codex-proxy-remote"

// Login is the login that codex gets: it names the plan and the person, and has no token but the model proxy's.
func (b *TokenSource) Login() Login {
	held, _ := b.now()
	plan, email := cmp.Or(held.Plan, "unknown"), cmp.Or(held.Email, "no account")
	part := func(v any) string {
		text, _ := json.Marshal(v) // of strings
		return base64.RawURLEncoding.EncodeToString(text)
	}
	const longAway = 10 * 365 * 24 * time.Hour
	claims := map[string]any{"email": email, "exp": time.Now().Add(longAway).Unix(),
		"https://api.openai.com/auth": map[string]string{
			"chatgpt_plan_type": plan, "chatgpt_account_id": standInAccount, "chatgpt_user_id": standInAccount}}
	return Login{
		Account: held.account, ID: standInAccount, Plan: plan, Email: email,
		Token: part(map[string]string{"alg": "none", "typ": "JWT"}) + "." + part(claims) + "." + b.token,
	}
}

// Login is the stand-in for an account that codex shows.
type Login struct {
	Account string // its name at codex-proxy; empty: none serves
	Token   string
	ID      string // of the account
	Plan    string
	Email   string
}
