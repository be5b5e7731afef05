package accounts

import (
	"fmt"
	"math"
	"slices"
	"time"
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

// longest bounds a window, in minutes: ten years, which a time.Duration holds.
const longest = 10 * 366 * 24 * 60

// NewWindow is the window of that many minutes.
func NewWindow(minutes int64, usedRatio float64, resetsAt time.Time) Window {
	minutes = rounded(min(max(minutes, 0), longest))
	return Window{Name: windowName(minutes), Length: time.Duration(minutes) * time.Minute,
		UsedRatio: min(max(usedRatio, 0), 1), ResetsAt: resetsAt}
}

// Left is the share of the window that is left, from 0 to 1. It is rounded, as 1 - 0.95 is
// more than 0.05 in floating point.
func (w Window) Left() float64 {
	const precision = 1e6
	return math.Round(precision*max(0, 1-w.UsedRatio)) / precision
}

// Ended reports whether the window has ended, so that the use of the next one is not known.
func (w Window) Ended(now time.Time) bool { return !w.ResetsAt.IsZero() && !now.Before(w.ResetsAt) }

// rounded is 300 minutes for 299: OpenAI has sent windows that are a minute or two short.
func rounded(minutes int64) int64 {
	const hour, slack = 60, 3
	whole := (minutes + hour/2) / hour * hour
	if off := whole - minutes; whole > 0 && -slack <= off && off <= slack {
		return whole
	}
	return minutes
}

// windowName is 5h for 300 minutes.
func windowName(minutes int64) string {
	const hour, day = 60, 24 * 60
	switch {
	case minutes%day == 0:
		return fmt.Sprintf("%dd", minutes/day)
	case minutes%hour == 0:
		return fmt.Sprintf("%dh", minutes/hour)
	}
	return fmt.Sprintf("%dm", minutes)
}

// mergeWindows are the windows with the windows of an update, by length. A reset that the update
// omits stays.
func mergeWindows(known, update []Window) []Window {
	merged := slices.Clone(known)
	for _, w := range update {
		i := slices.IndexFunc(merged, func(k Window) bool { return k.Length == w.Length })
		if i < 0 {
			merged = append(merged, w)
			continue
		}
		if w.ResetsAt.IsZero() {
			w.ResetsAt = merged[i].ResetsAt
		}
		merged[i] = w
	}
	return sortWindows(merged)
}

func sortWindows(windows []Window) []Window {
	slices.SortFunc(windows, func(a, b Window) int { return int(a.Length/time.Minute - b.Length/time.Minute) })
	return windows
}

// lengthOf is the length of the window of that name; 0 for another name.
func lengthOf(name string) time.Duration {
	var n int64
	var unit string
	if _, err := fmt.Sscanf(name, "%d%s", &n, &unit); err != nil {
		return 0
	}
	return time.Duration(n) * map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
}
