package modelproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"codex-proxy/broker/conversation"
	"codex-proxy/broker/upstream"
	"codex-proxy/workers/broker"
)

// AccountsService is where codex sends the requests of an account.
const AccountsService = "https://chatgpt.com"

// Prefix is the path below which codex looks for that service at a model proxy.
const Prefix = "/backend-api"

// allowed are the requests of codex that the account is lent for: requests to the model, and readings of the quota. A
// remote has no access to other parts of the account, such as its settings, its tasks and its connectors.
var allowed = map[string]bool{
	"POST /codex/responses": true, "POST /codex/responses/compact": true, "GET /codex/models": true,
	"POST /codex/images/generations": true, "POST /codex/images/edits": true, "POST /codex/alpha/search": true,
	"GET /wham/usage": true, "GET /wham/rate-limit-reset-credits": true,
}

// identity is codex's question for the accounts of its login.
const identity = "GET /wham/accounts/check"

// accounts sends requests on with the login of an account.
type accounts struct {
	service   *url.URL
	tokens    *TokenSource
	transport http.RoundTripper
	bodies    bodies
	foreign   foreign
	logger    *slog.Logger
}

// ForAccounts makes a model proxy of the client's account. service is AccountsService, or plays it.
func ForAccounts(tokens *TokenSource, service string, logger *slog.Logger) (*Proxy, error) {
	at, err := url.Parse(service)
	if err != nil {
		return nil, err
	}
	l := newProxy(logger)
	tokens.token = l.Token
	l.conversations = conversation.New(upstream.New(nil, 0), logger)
	l.handler = &accounts{service: at, tokens: tokens, transport: l.conversations, logger: logger}
	return l, nil
}

// ServeHTTP implements http.Handler.
func (a *accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, below := strings.CutPrefix(r.URL.Path, Prefix)
	question := r.Method + " " + path
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"): // codex then sends a POST
		refuse(w, http.StatusUpgradeRequired, "use POST")
	case below && question == identity:
		a.identify(w)
	case !below || !allowed[question]:
		refuse(w, http.StatusNotFound, "the account of a remote is lent for requests to the model alone")
	default:
		a.forward(w, r)
	}
}

// identify answers for the stand-in login: codex would compare the real account with it.
func (a *accounts) identify(w http.ResponseWriter) {
	login := a.tokens.Login()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"default_account_id": login.ID, "account_ordering": []string{login.ID},
		"accounts": []any{map[string]any{"id": login.ID, "name": login.Account, "structure": "personal",
			"plan_type": login.Plan, "is_deactivated": false, "can_access_with_session": true,
			"workspace_backend_origin": AccountsService, "account_routing_override": "NO_CONSTRAINT"}},
	})
}

// maxTries bounds how often one request of codex is sent.
const maxTries = 16

// answer sends a request on until an account serves it, or none does.
func (a *accounts) forward(w http.ResponseWriter, r *http.Request) {
	body, err := a.bodies.keep(r)
	if err != nil {
		return // codex has gone
	}
	defer body.release()
	with, err := a.tokens.acquire(r.Context())
	renewed, stripped := false, false
	for try := 1; err == nil; try++ {
		var res *http.Response
		if res, err = a.send(r, body, with); err != nil {
			a.unreachable(w, r, err)
			return
		}
		a.report(with, res.Header)
		answer := newStream(res)
		why := answer.refusal()
		if why == (refusal{}) || try == maxTries || why.foreign && (stripped || !body.kept) {
			a.pass(w, r, answer, with)
			return
		}
		_ = res.Body.Close()
		switch {
		case why.foreign:
			stripped, body.text = true, a.foreign.strip(with.account, body.text, true)
		case why.kind == broker.Unauthorized && renewed:
			err = &broker.Error{Code: broker.LoginInvalid, Message: fmt.Sprintf("the login of account %s is refused: "+
				"codex-proxy accounts login %[1]s", with.account)}
		default:
			renewed = why.kind == broker.Unauthorized
			if with, err = a.tokens.replace(r.Context(), with, why); err == nil && !body.kept {
				panic(http.ErrAbortHandler) // codex sends it again
			}
		}
	}
	a.deny(w, r, err)
}

// hopByHop are the headers of an answer that concern its connection (RFC 9110, section 7.6.1), or the account's own
// client.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Cookie"}

// turnState is a header by which the model endpoint finds the server that has begun a turn for an account.
const turnState = "X-Codex-Turn-State"

func (a *accounts) send(r *http.Request, body *kept, with token) (*http.Response, error) {
	target := *a.service
	target.Path, target.RawQuery = r.URL.Path, queryOf(r.URL)
	reader, size := io.Reader(ending(r.Body, r.ContentLength)), r.ContentLength
	if body.kept {
		text := a.foreign.strip(with.account, body.text, false)
		reader, size = bytes.NewReader(text), int64(len(text))
	}
	ctx := conversation.WithLimits(r.Context(), func(h http.Header) { a.report(with, h) })
	out, err := http.NewRequestWithContext(ctx, r.Method, target.String(), reader)
	if err != nil {
		return nil, err
	}
	out.ContentLength = size
	out.Header = headersOf(r.Header)
	if a.foreign.isForeign(with.account, out.Header.Get(turnState)) {
		out.Header.Del(turnState)
	}
	out.Header.Set("Authorization", "Bearer "+with.AccessToken)
	out.Header.Set("ChatGPT-Account-ID", with.AccountID)
	res, err := a.transport.RoundTrip(out)
	if err == nil {
		bound(res)
	}
	return res, err
}

// pass sends an answer to codex, each event at once. If the quota ends in the middle of it and another account serves,
// the connection is cut: codex sends the request again, and goes on with its turn.
func (a *accounts) pass(w http.ResponseWriter, r *http.Request, s *stream, with token) {
	defer s.res.Body.Close()
	a.foreign.own(with.account, s.res.Header.Get(turnState))
	header := w.Header()
	maps.Copy(header, s.res.Header)
	for _, name := range append(hopByHop, "Set-Cookie") {
		header.Del(name)
	}
	w.WriteHeader(s.res.StatusCode)
	out := http.NewResponseController(w)
	for {
		event, err := s.next()
		if limit := s.limit(event); limit.kind != "" {
			if _, err := a.tokens.replace(r.Context(), with, limit); err == nil {
				panic(http.ErrAbortHandler)
			}
		}
		if _, failed := w.Write(event); failed != nil {
			return
		}
		if s.idle() {
			_ = out.Flush()
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			panic(http.ErrAbortHandler) // codex learns that the answer is cut
		}
	}
}

// unreachable answers a request that the service has not. codex repeats it, and shows the words.
func (a *accounts) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // codex has interrupted the turn
	}
	a.logger.Warn("the model endpoint cannot be reached", "error", err)
	refuse(w, http.StatusBadGateway, "cannot reach "+a.service.Host+": "+upstream.ReasonOf(err).Words())
}

// deny answers a request that no account serves. For want of quota codex gets the answer of an account, and the
// time of the next try; anything else codex shows to people, and does not repeat.
func (a *accounts) deny(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	refused := errorOf(err)
	if !ofQuota(refused) {
		http.Error(w, refused.Message, http.StatusBadRequest) // the one status after which codex does not try again
		return
	}
	text := map[string]any{"type": codeLimit, "message": refused.Message}
	if !refused.RetryAt.IsZero() {
		text["resets_at"] = refused.RetryAt.Unix()
		text["resets_in_seconds"] = int(time.Until(refused.RetryAt).Seconds())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": text})
}
