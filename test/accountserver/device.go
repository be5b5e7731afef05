package accountserver

import (
	"net/http"
	"strings"
)

// UserCode is the code that a person types in at a login by device code.
const UserCode = "ABCD-12345"

// Approve has the person at the browser log in to an account at each device login from now on; an empty name: nobody is
// at the browser.
func (s *Server) Approve(account string) {
	s.update(func() { s.approved = s.accounts[account] })
}

// Revoked counts the logins that codex has ended.
func (s *Server) Revoked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

// Keys returns the API keys of the turns, in their order.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.keys...)
}

// deviceCode begins a login by device code.
func (s *Server) deviceCode(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, map[string]any{"device_auth_id": "device-1", "user_code": UserCode, "interval": "1"})
}

// devicePoll ends it when the person has approved it.
func (s *Server) devicePoll(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	approved := s.approved
	s.mu.Unlock()
	if approved == nil {
		sendJSON(w, http.StatusForbidden, map[string]any{"error": "pending"})
		return
	}
	sendJSON(w, http.StatusOK, map[string]any{"authorization_code": "code-" + approved.Name,
		"code_challenge": "challenge", "code_verifier": "verifier"})
}

// exchange gives the tokens of an approved login.
func (s *Server) exchange(w http.ResponseWriter, a *Account) {
	var reply map[string]any
	s.update(func() { reply = a.tokens() })
	sendJSON(w, http.StatusOK, reply)
}

func (s *Server) revoke(w http.ResponseWriter, _ *http.Request) {
	s.update(func() { s.revoked++ })
	sendJSON(w, http.StatusOK, map[string]any{})
}

// keyed answers a turn with an API key, which has no quota here.
func (s *Server) keyed(w http.ResponseWriter, r *http.Request) {
	s.update(func() { s.keys = append(s.keys, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) })
	r.URL.Path = "/v1/responses"
	s.turns.ServeHTTP(w, r)
}

// tokens are those of a login, as auth.json and the replies have them.
func (a *Account) tokens() map[string]any {
	return map[string]any{"id_token": a.jwt("id"), "access_token": a.jwt("access"),
		"refresh_token": a.refreshToken()}
}
