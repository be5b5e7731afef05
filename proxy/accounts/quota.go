package accounts

import "time"

// Source is where a fact about an account is known from.
type Source string

// The sources of facts.
const (
	Reading Source = "reading" // codex's account/rateLimits/read, which uses no quota
	Update  Source = "update"  // codex's account/rateLimits/updated, after a turn
	Refusal Source = "refusal" // the model endpoint refused a turn
)

// Window is how much of an account's limit is used up in one window of time.
type Window struct {
	// Name is the window's length, such as 5h or 7d; Length is the same as a duration.
	Name   string        `json:"window"`
	Length time.Duration `json:"-"`
	// UsedRatio is from 0 to 1.
	UsedRatio float64   `json:"used_ratio"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
}

// Left is the share of the window that is left, from 0 to 1.
func (w Window) Left() float64 { return max(0, 1-w.UsedRatio) }

// Credits are what an account may use beyond its windows.
type Credits struct {
	Has       bool   `json:"has_credits"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance,omitempty"` // as codex writes it
}

// Quota is what is known of one account at one time. It is a value: a change makes a new one.
type Quota struct {
	Windows []Window `json:"windows"` // by length, the shortest first
	Credits *Credits `json:"credits,omitempty"`
	Plan    string   `json:"plan,omitempty"`
	// Source and At are of the windows; a zero At means that none were read.
	Source Source    `json:"source,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// RefusedAt is when the model endpoint last refused a turn for this quota; zero after a
	// later reading that leaves quota. RefusedUntil is the reset that the refusal named.
	RefusedAt    time.Time `json:"refused_at,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	// InvalidAt is when the account's server last refused the login; zero after a reading
	// that it accepted.
	InvalidAt time.Time `json:"invalid_at,omitzero"`
}
