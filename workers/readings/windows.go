package readings

import (
	"time"

	"codex-proxy/codex/codexaccount"
	"codex-proxy/internal/unixtime"
	"codex-proxy/workers/accounts"
)

// windowsOf are the windows of limits. A window of unknown length is left out.
func windowsOf(l codexaccount.RateLimits) []accounts.Window {
	var windows []accounts.Window
	for _, w := range []*codexaccount.RateLimitWindow{l.Primary, l.Secondary} {
		if w == nil || w.WindowDurationMins <= 0 {
			continue
		}
		windows = append(windows,
			accounts.NewWindow(w.WindowDurationMins, float64(w.UsedPercent)/100, unixtime.Of(w.ResetsAt)))
	}
	return windows
}

// changedWindows are the windows of an update, with the values that it omits.
func changedWindows(known, update codexaccount.RateLimits) []accounts.Window {
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
func quotaOf(read codexaccount.Limits, begun time.Time) accounts.Quota {
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
