package workers

import (
	"time"

	"codex-proxy/workers/accounts"
)

// Account is the known state of a worker's account.
type Account struct {
	Worker string `json:"worker"`
	// Login is chatgpt, apiKey or another word of codex's; empty without one. Required means
	// that the worker's requests need a login.
	Login    string `json:"login"`
	Required bool   `json:"required"`
	Plan     string `json:"plan,omitempty"`
	Email    string `json:"email,omitempty"`
	// LoginAt is when codex reported the login.
	LoginAt time.Time `json:"login_at,omitzero"`
	// Limits are the windows that have not ended since codex reported them.
	Limits []Limit `json:"limits"`

	State accounts.State `json:"state"`
	// Until is when an exhausted account may have quota again; zero if that is not known.
	Until time.Time `json:"until,omitzero"`
	// Left is the least share left in any window, from 0 to 1.
	Left float64 `json:"left"`
	// Source and At are where the windows are known from, and since when.
	Source accounts.Source `json:"source,omitempty"`
	At     time.Time       `json:"at,omitzero"`
	// RefusedAt is when the model endpoint refused a turn for the quota, which no later
	// reading has ended; InvalidAt when the login was refused.
	RefusedAt time.Time         `json:"refused_at,omitzero"`
	InvalidAt time.Time         `json:"invalid_at,omitzero"`
	Credits   *accounts.Credits `json:"credits,omitempty"`
	// SharedWith are the workers with a login of the same account at OpenAI.
	SharedWith []string `json:"shared_with,omitempty"`
	Paused     bool     `json:"paused,omitempty"`
	InUse      bool     `json:"in_use,omitempty"`
}

// Book has the known state of the workers' accounts.
func (p *Pool) Book() *accounts.Book { return p.book }

// Accounts are the accounts with a known state, also of workers that do not run.
func (p *Pool) Accounts() []Account { return AccountsOf(p.book, time.Now()) }

// AccountsOf are the accounts of a Book of which something is known.
func AccountsOf(b *accounts.Book, now time.Time) []Account {
	list := []Account{}
	for _, v := range b.Views(now) {
		if v.State != accounts.Unknown || !v.Login.At.IsZero() {
			list = append(list, accountOf(v, now))
		}
	}
	return list
}

func accountOf(v accounts.View, now time.Time) Account {
	a := Account{
		Worker: v.Name, Login: v.Login.Type, Required: v.Login.Required, Plan: v.Login.Plan, Email: v.Login.Email,
		LoginAt: v.Login.At, Limits: current(v.Quota.Windows, now), State: v.State, Until: v.Until, Left: v.Left,
		Source: v.Quota.Source, At: v.Quota.At, RefusedAt: v.Quota.RefusedAt, InvalidAt: v.Quota.InvalidAt,
		Credits: v.Quota.Credits, SharedWith: v.Shared, Paused: v.Paused, InUse: v.InUse,
	}
	if v.Quota.Plan != "" {
		a.Plan = v.Quota.Plan
	}
	return a
}
