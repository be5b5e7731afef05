package appserver

import (
	"context"
	"encoding/json"
	"fmt"
)

// Account is the account that codex reports.
type Account struct {
	Login *Login `json:"account"` // nil: none
	// Required means that requests go to OpenAI, with the login.
	Required bool `json:"requiresOpenaiAuth"`
}

// Login is the login of codex.
type Login struct {
	Type string `json:"type"` // chatgpt, apiKey, or another type of codex
	// Email and PlanType belong to a chatgpt login; codex may not know them.
	Email    string `json:"email"`
	PlanType string `json:"planType"`
}

type accountReadParams struct {
	RefreshToken bool `json:"refreshToken"`
}

// Account asks codex for its account, as codex read it at its start. Codex does not check the login with the account's
// server.
func (c *Conn) Account(ctx context.Context) (Account, error) {
	var a Account
	if err := c.Call(ctx, "account/read", accountReadParams{}, &a); err != nil {
		return a, fmt.Errorf("cannot read the account: %w", err)
	}
	return a, nil
}

// RateLimits are the limits of an account. codex counts in at most two windows of time; either of them may be the
// shorter one.
type RateLimits struct {
	// LimitID distinguishes the limits of an account that has several.
	LimitID   string           `json:"limitId"`
	Primary   *RateLimitWindow `json:"primary"`
	Secondary *RateLimitWindow `json:"secondary"`
}

// RateLimitWindow is one window of time.
type RateLimitWindow struct {
	UsedPercent        int   `json:"usedPercent"`
	WindowDurationMins int64 `json:"windowDurationMins"` // 0: unknown
	ResetsAt           int64 `json:"resetsAt"`           // Unix time in seconds; 0: unknown
}

type rateLimitsPayload struct {
	RateLimits RateLimits `json:"rateLimits"`
}

// RateLimits asks codex for the limits of its account, which codex requests from the account's server. A login without
// limits, such as an API key, is an error.
func (c *Conn) RateLimits(ctx context.Context) (RateLimits, error) {
	var r rateLimitsPayload
	if err := c.Call(ctx, "account/rateLimits/read", nil, &r); err != nil {
		return RateLimits{}, fmt.Errorf("cannot read the rate limits: %w", err)
	}
	return r.RateLimits, nil
}

// RateLimitsUpdate returns the limits in a notification account/rateLimits/updated; false for any other notification.
func (n Notification) RateLimitsUpdate() (RateLimits, bool) {
	var p rateLimitsPayload
	if n.Method != "account/rateLimits/updated" || json.Unmarshal(n.Params, &p) != nil {
		return RateLimits{}, false
	}
	return p.RateLimits, true
}

// Merge returns the limits with the values of an update. A value that the update omits stays as it is; an update of
// another limit changes nothing.
func (l RateLimits) Merge(update RateLimits) RateLimits {
	if l.LimitID != "" && update.LimitID != "" && l.LimitID != update.LimitID {
		return l
	}
	l.Primary, l.Secondary = l.Primary.merge(update.Primary), l.Secondary.merge(update.Secondary)
	return l
}

func (w *RateLimitWindow) merge(update *RateLimitWindow) *RateLimitWindow {
	switch {
	case update == nil:
		return w
	case w == nil:
		return update
	}
	merged := *update
	if merged.WindowDurationMins == 0 {
		merged.WindowDurationMins = w.WindowDurationMins
	}
	if merged.ResetsAt == 0 {
		merged.ResetsAt = w.ResetsAt
	}
	return &merged
}
