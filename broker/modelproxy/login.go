package modelproxy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"codex-proxy/broker/conversation"
	"codex-proxy/broker/upstream"
	"codex-proxy/workers/broker"
)

// LoginSource returns the login of a worker: another one than refused, a token that OpenAI has refused.
type LoginSource func(ctx context.Context, refused string) (broker.Login, error)

// OpenAI is the place of the model of a login.
type OpenAI struct {
	ChatGPT string // of an account
	API     string // of an API key
}

// Public has OpenAI's addresses.
var Public = OpenAI{ChatGPT: AccountsService + Prefix + "/codex", API: "https://api.openai.com/v1"}

const (
	// loginBound is how long a request waits for a login: its unit may have to start, and to refresh the login.
	loginBound = 20 * time.Second
	// loginPause is the pause after a unit that did not answer: it may have been killed.
	loginPause = 500 * time.Millisecond
)

// ForLogin makes a model proxy for a worker with a login of its own, with so many connections at most (Endpoint). codex
// alone reaches its socket. served has the sources of all accounts that the worker serves, by their names, if it serves
// several.
func ForLogin(source LoginSource, served map[string]LoginSource, at OpenAI, connections int, logger *slog.Logger) (*Proxy, error) {
	transport := upstream.New(nil, connections)
	conversations := conversation.New(transport, logger)
	var chatGPT, api place
	for address, to := range map[string]*place{at.ChatGPT: &chatGPT, at.API: &api} {
		base, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		*to = place{base, conversations}
	}
	all := signers{"": newSigner(source, chatGPT, api)}
	for name, of := range served {
		all[name] = newSigner(of, chatGPT, api)
	}
	f := failures{logger}
	l := newProxy(logger)
	l.Token, l.guard = "", nil
	l.seen.of(transport)
	l.seen.accounts, l.conversations = slices.Sorted(maps.Keys(served)), conversations
	l.handler = probing(chatGPT.base, transport, all.choose(l.seen.limited, ofCodex(l.seen.observe(l.retriable(&forward{
		transport: all, rewrite: func(out *http.Request) { out.URL = queried(out.URL) }, fail: f.answer,
		modify: func(res *http.Response) {
			l.seen.limited(accountOf(res.Request), res.Header)
			res.Header.Del("Set-Cookie")
			answered(res)
			l.seen.meter(res)
			bound(res)
		},
	})))))
	return l, nil
}

// queried is an address with the part of its query that goes on.
func queried(u *url.URL) *url.URL {
	passed := *u
	passed.RawQuery = queryOf(u)
	return &passed
}

// place is one address of OpenAI, with its connections.
type place struct {
	base      *url.URL
	transport http.RoundTripper
}

// signer sends requests with the login that holds.
type signer struct {
	source       LoginSource
	chatGPT, api place
	asking       chan struct{} // has a token while a question for a login is under way

	mu   sync.Mutex
	held broker.Login
}

func newSigner(source LoginSource, chatGPT, api place) *signer {
	return &signer{source: source, chatGPT: chatGPT, api: api, asking: make(chan struct{}, 1)}
}

// RoundTrip implements http.RoundTripper. A request that the login is refused for goes out once more, with another
// login: nothing of its answer has gone to codex.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	with, err := s.login(r.Context(), "")
	if err != nil {
		return nil, &loginError{err}
	}
	res, err := s.send(r, with)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	other, err := s.login(r.Context(), with.AccessToken)
	if err != nil && r.Context().Err() == nil && final(err) {
		return res, nil // codex gets OpenAI's words
	}
	_ = res.Body.Close()
	if err != nil {
		return nil, &loginError{err}
	}
	again, ok := repeated(r)
	if !ok { // the login holds: a 401 would have codex give it up
		return nil, &loginError{errUnkept}
	}
	return s.send(again, other)
}

// errUnkept is why a request does not go out with a new login.
var errUnkept = &broker.Error{Code: broker.Unavailable, Message: "the login is a new one now, and there was no room to " +
	"keep this request for it: send it again"}

// repeated is the same request with its body again.
func repeated(r *http.Request) (*http.Request, bool) {
	if r.ContentLength == 0 {
		return r, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	again := r.WithContext(r.Context())
	again.Body = ending(body, r.ContentLength)
	return again, err == nil
}

// send sends a request with a login to its place.
func (s *signer) send(r *http.Request, with broker.Login) (*http.Response, error) {
	to := s.chatGPT
	if with.AccountID == "" {
		to = s.api
	}
	out := r.WithContext(r.Context())
	out.URL = to.base.JoinPath(r.URL.Path)
	out.URL.RawQuery, out.Host = r.URL.RawQuery, to.base.Host
	out.Header = maps.Clone(r.Header)
	out.Header.Set("Authorization", "Bearer "+with.AccessToken)
	if with.AccountID != "" {
		out.Header.Set("ChatGPT-Account-ID", with.AccountID)
	}
	return to.transport.RoundTrip(out)
}

// login returns a login that lasts, and is another one than refused. All requests that need another one wait for one
// question to the source.
func (s *signer) login(ctx context.Context, refused string) (broker.Login, error) {
	if held, ok := s.useful(refused); ok {
		return held, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginBound)
	defer cancel()
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return broker.Login{}, context.Cause(ctx)
	}
	for {
		if held, ok := s.useful(refused); ok { // another request has asked meanwhile
			return held, nil
		}
		got, err := s.source(ctx, refused)
		if err == nil {
			s.mu.Lock()
			s.held = got
			s.mu.Unlock()
			return got, nil
		}
		if final(err) {
			return broker.Login{}, err
		}
		select {
		case <-time.After(loginPause):
		case <-ctx.Done():
			return broker.Login{}, err
		}
	}
}

func (s *signer) useful(refused string) (broker.Login, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.held.Lasts(time.Now(), spare) && s.held.AccessToken != refused
}

// loginError is why a request has no login.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// final means that another question soon has the same answer.
func final(err error) bool {
	return slices.Contains([]broker.Code{broker.LoginInvalid, broker.NoAccount}, broker.CodeOf(err))
}

// failures answers requests that got no answer of OpenAI.
type failures struct{ logger *slog.Logger }

func (f failures) answer(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // codex has interrupted the turn
	}
	logger := f.logger
	if account := accountOf(r); account != "" {
		logger = logger.With("account", account)
	}
	var login *loginError
	switch asLogin := errors.As(err, &login); {
	case asLogin && final(err):
		logger.Warn("the login of the worker does not hold", "error", err)
		refuse(w, http.StatusUnauthorized, errorOf(err).Message)
	case asLogin && broker.CodeOf(err) != "":
		logger.Warn("a request has no login now", "error", err)
		refuse(w, http.StatusServiceUnavailable, errorOf(err).Message)
	case asLogin:
		logger.Warn("the login of the worker cannot be read", "error", err)
		refuse(w, http.StatusServiceUnavailable, "the unit of the login does not answer")
	default:
		reason := upstream.ReasonOf(err)
		f.logger.Warn("the model endpoint cannot be reached", "reason", string(reason), "error", err)
		refuse(w, http.StatusBadGateway, "cannot reach the provider: "+reason.Words())
	}
}
