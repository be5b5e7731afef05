// Package codexaccount reads the account of a codex app-server, its login and its limits.
package codexaccount

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/rpc"
)

// Account is the account that codex reports.
type Account struct {
	Login *Login `json:"account"` // nil: none, also if the account's server has refused to refresh the login
	// Required means that requests go to OpenAI, with the login.
	Required bool `json:"requiresOpenaiAuth"`
	// UserID is the user at ChatGPT; empty if codex does not know it. A workspace has several, each with limits
	// of their own.
	UserID    string            `json:"userId"`
	Workspace *WorkspaceRouting `json:"workspaceRouting"` // nil: not known
}

// WorkspaceRouting identifies the account at ChatGPT.
type WorkspaceRouting struct {
	AccountID string `json:"chatgptAccountId"`
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

// Caller sends a request to codex, and waits for its reply.
type Caller interface {
	Call(ctx context.Context, method string, params, result any) error
}

// Read asks codex for its account, as codex read it at its start. Codex does not check the login with the account's
// server.
func Read(ctx context.Context, c Caller) (Account, error) { return read(ctx, c, false) }

// Refresh is Read after codex has refreshed the tokens of the login, or read a newer auth.json. If the account's server
// refuses to refresh, the account has no login, and codex does not ask again until auth.json changes (measured on codex
// 0.169).
func Refresh(ctx context.Context, c Caller) (Account, error) { return read(ctx, c, true) }

func read(ctx context.Context, c Caller, refresh bool) (Account, error) {
	var a Account
	if err := c.Call(ctx, "account/read", accountReadParams{RefreshToken: refresh}, &a); err != nil {
		return a, fmt.Errorf("cannot read the account: %w", err)
	}
	return a, nil
}

// RateLimits are the limits of an account. codex counts in at most two windows of time; either of them may be the
// shorter one.
type RateLimits struct {
	// LimitID distinguishes the limits of an account that has several: codex is the account's own, any other belongs to
	// one model or feature.
	LimitID   string           `json:"limitId"`
	Primary   *RateLimitWindow `json:"primary"`
	Secondary *RateLimitWindow `json:"secondary"`
	Credits   *Credits         `json:"credits"`
	PlanType  string           `json:"planType"`
	// Reached is the kind of limit that is used up, such as rate_limit_reached for a window; mostly empty.
	Reached string `json:"rateLimitReachedType"`
	// SpendReached means that the limit on spending is used up.
	SpendReached bool `json:"spendControlReached"`
}

// Credits are the amount that an account may use beyond its windows.
type Credits struct {
	Has       bool   `json:"hasCredits"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance"`
}

// RateLimitWindow is one window of time.
type RateLimitWindow struct {
	UsedPercent        int   `json:"usedPercent"`
	WindowDurationMins int64 `json:"windowDurationMins"` // 0: unknown
	ResetsAt           int64 `json:"resetsAt"`           // Unix time in seconds; 0: unknown
}

// Limits is codex's last reading from the account's server.
type Limits struct {
	// RateLimits are the limits under the name codex, or under the first name if codex is absent.
	RateLimits RateLimits `json:"rateLimits"`
	// AccountID is the account that the server names; empty if it names none.
	AccountID string `json:"accountId"`
	// Allowed is the server's verdict on use within the windows; nil if codex cannot match the server's account and
	// user with the login.
	Allowed *bool `json:"ordinaryUsageAllowed"`
}

type rateLimitsReadParams struct {
	// ExcludeResetCreditDetails saves a second request.
	ExcludeResetCreditDetails bool `json:"excludeResetCreditDetails"`
}

type rateLimitsPayload struct {
	RateLimits RateLimits `json:"rateLimits"`
}

const readRateLimits = "account/rateLimits/read"

// takesNone reports whether codex refused a request because it has parameters: codex 0.140 takes none for rate limits.
func takesNone(err error) bool {
	var e *rpc.Error
	return errors.As(err, &e) && e.Code == rpc.CodeInvalidRequest && strings.Contains(e.Message, "expected unit")
}

// ReadLimits asks codex for the limits of its account, which codex requests from the account's server. It uses up none
// of them. A login without limits, such as an API key, is an error. See IsUnauthorized for a login that is refused.
func ReadLimits(ctx context.Context, c Caller) (Limits, error) {
	var l Limits
	err := c.Call(ctx, readRateLimits, rateLimitsReadParams{ExcludeResetCreditDetails: true}, &l)
	if takesNone(err) {
		err = c.Call(ctx, readRateLimits, nil, &l)
	}
	if err != nil {
		return Limits{}, fmt.Errorf("cannot read the rate limits: %w", err)
	}
	return l, nil
}

// IsUnauthorized reports whether the account's server refused the login in a reading. It may accept it after
// Refresh: codex 0.169 refreshes nothing for a reading. Its error, measured: code -32603, message "failed to
// fetch codex rate limits: GET https://chatgpt.com/backend-api/wham/usage failed: 401 Unauthorized; content-type=…;
// body=…". A codex that refreshes by itself, as at its start, answers any reading with "Your access token could not be
// refreshed because your refresh token was already used. Please log out and sign in again." (or has expired, or was
// revoked).
func IsUnauthorized(err error) bool {
	var e *rpc.Error
	return errors.As(err, &e) && (strings.Contains(e.Message, " failed: 401 ") ||
		strings.Contains(e.Message, "Your access token could not be refreshed"))
}

// RateLimitsUpdate returns the limits in a notification account/rateLimits/updated; false for any other notification.
func RateLimitsUpdate(n appserver.Notification) (RateLimits, bool) {
	var p rateLimitsPayload
	if n.Method != "account/rateLimits/updated" || json.Unmarshal(n.Params, &p) != nil {
		return RateLimits{}, false
	}
	return p.RateLimits, true
}

// accountLimit is the LimitID of the account's own limit.
const accountLimit = "codex"

// Covers reports whether an update is of the same limit.
func (l RateLimits) Covers(update RateLimits) bool {
	return update.LimitID == "" || update.LimitID == cmp.Or(l.LimitID, accountLimit)
}

// Merge returns the limits with the values of an update. A value that the update omits stays as it is; an update of
// another limit changes nothing.
func (l RateLimits) Merge(update RateLimits) RateLimits {
	if !l.Covers(update) {
		return l
	}
	update.Primary, update.Secondary = l.Primary.merge(update.Primary), l.Secondary.merge(update.Secondary)
	update.LimitID, update.PlanType = cmp.Or(update.LimitID, l.LimitID), cmp.Or(update.PlanType, l.PlanType)
	if update.Credits == nil {
		update.Credits = l.Credits
	}
	return update
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
	if merged.ResetsAt == 0 && merged.WindowDurationMins == w.WindowDurationMins {
		merged.ResetsAt = w.ResetsAt
	}
	return &merged
}
