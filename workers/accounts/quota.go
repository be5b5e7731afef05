package accounts

import (
	"strconv"
	"time"
)

// Source is where a fact about an account is known from.
type Source string

// The sources of facts.
const (
	Reading Source = "reading" // codex's account/rateLimits/read, which uses no quota
	Update  Source = "update"  // codex's account/rateLimits/updated, after a turn
	Refusal Source = "refusal" // the model endpoint refused a turn
)

// Credits are the amount that an account may use beyond its windows.
type Credits struct {
	Has       bool   `json:"has_credits"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance,omitempty"` // as codex writes it
}

// Quota is the known state of one account at one time. It is a value: a change makes a new one.
type Quota struct {
	Windows []Window `json:"windows"` // by length, the shortest first
	Credits *Credits `json:"credits,omitempty"`
	Plan    string   `json:"plan,omitempty"`
	// Allowed is the account's server's own verdict on use within the windows; nil: it gave
	// none. It outweighs the windows, because their shares are rounded.
	Allowed *bool `json:"allowed,omitempty"`
	// Reached is codex's rateLimitReachedType: the limit that is used up.
	Reached string `json:"reached,omitempty"`
	// SpendReached means that a limit on spending is used up: credits do not help.
	SpendReached bool `json:"spend_reached,omitempty"`
	// Source and At are of the windows; a zero At means that none were read. At is when
	// the reading began, or the update arrived.
	Source Source    `json:"source,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// RefusedAt is when the model endpoint last refused a turn for this quota; zero after a
	// later reading that leaves quota. RefusedUntil is the reset that the refusal named.
	RefusedAt    time.Time `json:"refused_at,omitzero"`
	RefusedUntil time.Time `json:"refused_until,omitzero"`
	// DoubtedAt is when a reading was last asked for.
	DoubtedAt time.Time `json:"-"`
	// InvalidAt is when the account's server last refused the login; zero after a reading
	// that it accepted.
	InvalidAt time.Time `json:"invalid_at,omitzero"`
}

// Left is the least share left in any window, from 0 to 1; 1 without windows.
func (q Quota) Left() float64 {
	left := 1.0
	for _, w := range q.Windows {
		left = min(left, w.Left())
	}
	return left
}

// limitless reports whether the login has no windows, as a reading has shown.
func (q Quota) limitless() bool {
	return !q.At.IsZero() && len(q.Windows) == 0 && q.Allowed == nil && q.Reached == ""
}

// usedUp reports whether nothing is left in the windows.
func (q Quota) usedUp() bool {
	if q.Allowed != nil {
		return !*q.Allowed
	}
	return q.Reached != "" || len(q.Windows) > 0 && q.Left() <= 0
}

// spendable reports whether turns may use credits.
func (q Quota) spendable() bool {
	c := q.Credits
	if c == nil || q.SpendReached || q.Reached != "" && q.Reached != windowReached {
		return false
	}
	return c.Unlimited || c.Has && c.positive()
}

// windowReached is the rateLimitReachedType of windows. All others are of a workspace,
// whose members have no credits left.
const windowReached = "rate_limit_reached"

// positive reports whether there is a balance; one that is not a number is taken for one.
func (c Credits) positive() bool {
	balance, err := strconv.ParseFloat(c.Balance, 64)
	return err != nil || balance > 0
}

// withReading is the quota after a reading. A reading that began before an update or a
// refusal does not undo it.
func (q Quota) withReading(r Quota) Quota {
	if r.At.Before(q.At) {
		r.Windows, r.Allowed, r.Reached, r.Source, r.At = q.Windows, q.Allowed, q.Reached, q.Source, q.At
	}
	r.InvalidAt, r.DoubtedAt = time.Time{}, q.DoubtedAt
	if !q.RefusedAt.IsZero() && !r.lifts(q) {
		r.RefusedAt, r.RefusedUntil = q.RefusedAt, q.RefusedUntil
	}
	return r
}

// lifts reports whether the reading ends the refusal of the quota before. Credits end it
// only if they are new: the account was refused with those that it had.
func (q Quota) lifts(before Quota) bool {
	switch {
	case !q.At.After(before.RefusedAt):
		return false
	case q.limitless():
		return q.At.Sub(before.RefusedAt) >= IdleInterval
	}
	return !q.usedUp() || q.spendable() && !before.spendable()
}

// withUpdate is the quota after an update. An update omits unchanged fields. It does
// not end that windows are used up: it may be older than the known state.
func (q Quota) withUpdate(windows []Window, at time.Time) Quota {
	merged := mergeWindows(q.Windows, windows)
	after := q
	after.Windows, after.Source, after.At = merged, Update, at
	before := len(q.Windows) > 0 && q.Left() <= 0
	switch {
	case after.Left() <= 0 && !before:
		after.Allowed = nil // it was given for less use
	case after.Left() > 0 && q.usedUp():
		return q
	}
	return after
}
