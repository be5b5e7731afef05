package accounts

import "time"

// Login is the login of an account's worker, as codex reported it at At.
type Login struct {
	Type     string `json:"login,omitempty"` // chatgpt, apiKey or another word of codex's; empty: none
	Required bool   `json:"required"`        // the worker's requests need a login
	Plan     string `json:"plan,omitempty"`
	Email    string `json:"email,omitempty"`
	// QuotaID identifies the account at OpenAI; empty if codex does not know it.
	QuotaID string    `json:"quota_id,omitempty"`
	At      time.Time `json:"at,omitzero"` // zero: codex reported nothing yet
}

// Missing reports whether the worker needs a login and has none.
func (l Login) Missing() bool { return l.Required && l.Type == "" }
