// Package accountserver plays the hosts of OpenAI that codex uses with a ChatGPT login, with quotas that a test
// scripts: the login's tokens, the readings of an account's quota, and the turns, which a modelserver answers. codex
// runs with its own settings; the names of the hosts lead to this server, and codex trusts its certificate.
//
//	accounts := accountserver.New(models, "a", "b")
//	accounts.Account("a").Change(func(q *accountserver.Quota) { q.Windows[0].Cost = 10 }) // ten turns
//
// The bearer token of a request names its account, and the server records each request of an account with its time.
package accountserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"codex-proxy/test/modelserver"
)

// Hosts are the names at which codex looks for the server.
var Hosts = []string{"auth.openai.com", "chatgpt.com", "api.openai.com"}

// Server has accounts. Its methods may be called from any goroutine.
type Server struct {
	models *modelserver.Server
	turns  http.Handler // of models

	mu       sync.Mutex
	names    []string
	accounts map[string]*Account
	approved *Account      // of the next login by device code
	revoked  int           // logins
	keys     []string      // of turns
	changed  chan struct{} // closed at the next change
}

// New makes a server with accounts of these names, each with the quota Fresh. models answers their turns.
func New(models *modelserver.Server, names ...string) *Server {
	s := &Server{models: models, turns: models.Handler(), names: names, accounts: map[string]*Account{},
		changed: make(chan struct{})}
	for _, name := range names {
		s.accounts[name] = &Account{server: s, Name: name, quota: Fresh(time.Now())}
	}
	return s
}

// Account returns the account of that name; it panics if there is none.
func (s *Server) Account(name string) *Account {
	a := s.accounts[name]
	if a == nil {
		panic(fmt.Sprintf("accountserver: there is no account %q", name))
	}
	return a
}

// Accounts returns all accounts, in the order of New.
func (s *Server) Accounts() []*Account {
	list := make([]*Account, 0, len(s.names))
	for _, name := range s.names {
		list = append(list, s.accounts[name])
	}
	return list
}

// Handler serves the hosts, and the control paths (see control.go) at every other name.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST auth.openai.com/oauth/token", s.token)
	mux.HandleFunc("POST auth.openai.com/oauth/revoke", s.revoke)
	mux.HandleFunc("POST auth.openai.com/api/accounts/deviceauth/usercode", s.deviceCode)
	mux.HandleFunc("POST auth.openai.com/api/accounts/deviceauth/token", s.devicePoll)
	mux.HandleFunc("GET chatgpt.com/backend-api/wham/accounts/check", s.ofAccount(s.check))
	mux.HandleFunc("GET chatgpt.com/backend-api/wham/usage", s.ofAccount(s.reading))
	mux.HandleFunc("POST chatgpt.com/backend-api/codex/responses", s.ofAccount(s.turn))
	mux.HandleFunc("GET chatgpt.com/backend-api/codex/responses", s.webSocket)
	mux.HandleFunc("POST api.openai.com/v1/responses", s.keyed)
	mux.HandleFunc("GET api.openai.com/v1/responses", s.webSocket)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "not_found", "the accounts' server has no such path", nil)
	})
	s.control(mux)
	return mux
}

// webSocket refuses codex's first attempt: 426 makes codex use POST at once.
func (s *Server) webSocket(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Upgrade", "h2c")
	http.Error(w, "use POST and SSE", http.StatusUpgradeRequired)
}

// ofAccount passes on the requests with a valid token, and refuses the others.
func (s *Server) ofAccount(serve func(http.ResponseWriter, *http.Request, *Account)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, serial := s.bearer(r)
		if a == nil || !a.accepts(serial) {
			refuse(w, http.StatusUnauthorized, "token_invalidated",
				"Your authentication token has been invalidated. Please try signing in again.", nil)
			return
		}
		serve(w, r, a)
	}
}

// Wait returns nil as soon as enough returns true; it is called again after each change. It fails if ctx ends first.
func (s *Server) Wait(ctx context.Context, enough func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if enough() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the accounts' server waits in vain: %w", ctx.Err())
		}
	}
}

// update is the only door to what the server knows.
func (s *Server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func sendJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// refuse sends an error; more are its further fields.
func refuse(w http.ResponseWriter, status int, code, message string, more map[string]any) {
	body := map[string]any{"type": code, "code": code, "message": message}
	for name, value := range more {
		body[name] = value
	}
	sendJSON(w, status, map[string]any{"error": body})
}
