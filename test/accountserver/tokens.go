package accountserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// claims is the part of a token that codex and the server read.
type claims struct {
	Kind   string `json:"kind"`
	Email  string `json:"email"`
	Expiry int64  `json:"exp"`
	Serial int    `json:"serial"`
	Auth   struct {
		Plan    string `json:"chatgpt_plan_type"`
		Account string `json:"chatgpt_account_id"`
		User    string `json:"chatgpt_user_id"`
	} `json:"https://api.openai.com/auth"`
}

// ID is the account's id at OpenAI.
func (a *Account) ID() string { return "account-" + a.Name }

func (a *Account) userID() string { return "user-" + a.Name }

// Email is the address of the account's owner.
func (a *Account) Email() string { return a.Name + "@example.com" }

// jwt is a token without a signature, which codex does not check.
func (a *Account) jwt(kind string) string {
	c := claims{Kind: kind, Email: a.Email(), Expiry: time.Now().Add(24 * time.Hour).Unix(), Serial: a.issued}
	c.Auth.Plan, c.Auth.Account, c.Auth.User = a.quota.Plan, a.ID(), a.userID()
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(c) + ".SECRET"
}

// Login is the auth.json of a home of codex that is logged in to the account.
func (a *Account) Login() []byte {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	tokens := a.tokens()
	tokens["account_id"] = a.ID()
	doc, _ := json.Marshal(map[string]any{"auth_mode": "chatgpt", "OPENAI_API_KEY": nil,
		"last_refresh": time.Now().UTC().Format(time.RFC3339Nano), "tokens": tokens})
	return doc
}

func (a *Account) refreshToken() string { return fmt.Sprintf("refresh-SECRET-%d-%s", a.issued, a.Name) }

// bearer returns the account of a request's token, and the token's serial; the account is nil without a token.
func (s *Server) bearer(r *http.Request) (*Account, int) {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return nil, 0
	}
	doc, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c claims
	if err != nil || json.Unmarshal(doc, &c) != nil {
		return nil, 0
	}
	return s.accounts[strings.TrimPrefix(c.Auth.Account, "account-")], c.Serial
}

// grant is the part of a request for tokens that the server reads.
type grant struct {
	RefreshToken string `json:"refresh_token"`
	Code         string `json:"code"` // of a login by device code
}

// token exchanges a refresh token, which works once, or the code of a login.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	g := readGrant(r)
	if a := s.accounts[strings.TrimPrefix(g.Code, "code-")]; a != nil {
		s.exchange(w, a)
		return
	}
	var serial int
	var name string
	if _, err := fmt.Sscanf(g.RefreshToken, "refresh-SECRET-%d-%s", &serial, &name); err != nil ||
		s.accounts[name] == nil {
		refuse(w, http.StatusUnauthorized, "refresh_token_invalidated", "Your refresh token is not valid.", nil)
		return
	}
	if reply := s.accounts[name].refresh(serial); reply != nil {
		sendJSON(w, http.StatusOK, reply)
		return
	}
	refuse(w, http.StatusUnauthorized, "refresh_token_reused",
		"Your refresh token has already been used to generate a new access token.", nil)
}

// refresh returns new tokens for a refresh token that is not used yet, or nil.
func (a *Account) refresh(serial int) (reply map[string]any) {
	a.server.update(func() {
		a.record.Refreshes = append(a.record.Refreshes, time.Now())
		if a.invalid || serial != a.issued && serial != a.issued-1 {
			return
		}
		a.issued++
		reply = a.tokens()
	})
	return reply
}

// readGrant reads the request as JSON, as which codex sends refreshes, or as a form.
func readGrant(r *http.Request) (g grant) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.NewDecoder(r.Body).Decode(&g)
		return g
	}
	return grant{RefreshToken: r.FormValue("refresh_token"), Code: r.FormValue("code")}
}
