package accounts

import "time"

// Account is the known state of a worker's account.
type Account struct {
	Worker string `json:"name"`
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

	State State `json:"state"`
	// Until is when an exhausted account may have quota again; zero if that is not known.
	Until time.Time `json:"until,omitzero"`
	// Left is the least share left in any window, from 0 to 1.
	Left float64 `json:"left"`
	// Source and At are where the windows are known from, and since when.
	Source Source    `json:"known_from,omitempty"`
	At     time.Time `json:"known_at,omitzero"`
	// RefusedAt is when the model endpoint refused a turn for the quota, which no later
	// reading has ended; InvalidAt when the login was refused.
	RefusedAt time.Time `json:"refused_at,omitzero"`
	InvalidAt time.Time `json:"invalid_at,omitzero"`
	Credits   *Credits  `json:"credits,omitempty"`
	// SharedWith are the workers with a login of the same account at OpenAI.
	SharedWith []string `json:"shared_with,omitempty"`
	Paused     bool     `json:"paused,omitempty"`
	InUse      bool     `json:"in_use,omitempty"`
}

// Limit is how much of an account is used up in one window of time.
type Limit struct {
	Window    string    `json:"window"` // its length, such as 5h or 7d
	UsedRatio float64   `json:"used_ratio"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
}

// Known are the accounts of a Store of which something is known.
func Known(b *Store, now time.Time) []Account {
	list := []Account{}
	for _, v := range b.Views(now) {
		if v.State != Unknown || !v.Login.At.IsZero() {
			list = append(list, accountOf(v, now))
		}
	}
	return list
}

func accountOf(v View, now time.Time) Account {
	a := Account{
		Worker: v.Name, Login: v.Login.Type, Required: v.Login.Required, Plan: v.Login.Plan, Email: v.Login.Email,
		LoginAt: v.Login.At, Limits: v.Limits(now), State: v.State, Until: v.Until, Left: v.Left,
		Source: v.Quota.Source, At: v.Quota.At, RefusedAt: v.Quota.RefusedAt, InvalidAt: v.Quota.InvalidAt,
		Credits: v.Quota.Credits, SharedWith: v.Shared, Paused: v.Paused, InUse: v.InUse,
	}
	if v.Quota.Plan != "" {
		a.Plan = v.Quota.Plan
	}
	return a
}

// Limits are the windows that have not ended: the use of the next ones is not known.
func (v View) Limits(now time.Time) []Limit {
	limits := []Limit{}
	for _, w := range v.Quota.Windows {
		if !w.Ended(now) {
			limits = append(limits, Limit{w.Name, w.UsedRatio, w.ResetsAt})
		}
	}
	return limits
}

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
