package workers

import (
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/internal/unixtime"
	"codex-proxy/workers/accounts"
)

// Limit is how much of an account is used up in one window of time.
type Limit struct {
	Window    string    `json:"window"` // its length, such as 5h or 7d
	UsedRatio float64   `json:"used_ratio"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
}

// windowsOf are the windows of limits. A window of unknown length is left out.
func windowsOf(l appserver.RateLimits) []accounts.Window {
	var windows []accounts.Window
	for _, w := range []*appserver.RateLimitWindow{l.Primary, l.Secondary} {
		if w == nil || w.WindowDurationMins <= 0 {
			continue
		}
		windows = append(windows,
			accounts.NewWindow(w.WindowDurationMins, float64(w.UsedPercent)/100, unixtime.Of(w.ResetsAt)))
	}
	return windows
}

// changedWindows are the windows of an update, with the values that it omits.
func changedWindows(known, update appserver.RateLimits) []accounts.Window {
	if !known.Covers(update) {
		return nil
	}
	merged := known.Merge(update)
	if update.Primary == nil {
		merged.Primary = nil
	}
	if update.Secondary == nil {
		merged.Secondary = nil
	}
	return windowsOf(merged)
}

// quotaOf is the quota that a reading has found, which began at begun.
func quotaOf(read appserver.AccountLimits, begun time.Time) accounts.Quota {
	l := read.RateLimits
	q := accounts.Quota{
		Windows: windowsOf(l), Plan: l.PlanType, Allowed: read.Allowed, Reached: l.Reached,
		SpendReached: l.SpendReached, Source: accounts.Reading, At: begun,
	}
	if c := l.Credits; c != nil {
		q.Credits = &accounts.Credits{Has: c.Has, Unlimited: c.Unlimited, Balance: c.Balance}
	}
	return q
}

// current are the windows that have not ended: the use of the next ones is not known.
func current(windows []accounts.Window, now time.Time) []Limit {
	limits := []Limit{}
	for _, w := range windows {
		if !w.Ended(now) {
			limits = append(limits, Limit{w.Name, w.UsedRatio, w.ResetsAt})
		}
	}
	return limits
}
