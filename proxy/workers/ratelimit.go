package workers

import (
	"fmt"
	"slices"
	"time"

	"codex-proxy/proxy/appserver"
)

// Limit is how much of an account is used up in one window of time.
type Limit struct {
	Window    string    `json:"window"` // its length, such as 5h or 7d
	UsedRatio float64   `json:"used_ratio"`
	ResetsAt  time.Time `json:"resets_at,omitzero"`
}

// limitsAt are the limits by their length. A window that has ended since codex
// reported it is left out: the use of the next one is not known.
func limitsAt(l appserver.RateLimits, now time.Time) []Limit {
	limits := []Limit{}
	for _, w := range []*appserver.RateLimitWindow{l.Primary, l.Secondary} {
		if w == nil || w.WindowDurationMins <= 0 || w.ResetsAt != 0 && now.Unix() >= w.ResetsAt {
			continue
		}
		limit := limitOf(w)
		same := func(l Limit) bool { return l.Window == limit.Window }
		if !slices.ContainsFunc(limits, same) { // the length is a label, of one sample
			limits = append(limits, limit)
		}
	}
	return limits
}

func limitOf(w *appserver.RateLimitWindow) Limit {
	limit := Limit{Window: windowName(w.WindowDurationMins), UsedRatio: float64(w.UsedPercent) / 100}
	if w.ResetsAt != 0 {
		limit.ResetsAt = time.Unix(w.ResetsAt, 0).UTC()
	}
	return limit
}

// windowName is 5h for 300 minutes, and for 299: OpenAI has sent windows that
// are a minute or two short.
func windowName(minutes int64) string {
	const hour, day, slack = 60, 24 * 60, 3
	whole := (minutes + hour/2) / hour * hour
	if off := whole - minutes; whole > 0 && -slack <= off && off <= slack {
		minutes = whole
	}
	switch {
	case minutes%day == 0:
		return fmt.Sprintf("%dd", minutes/day)
	case minutes%hour == 0:
		return fmt.Sprintf("%dh", minutes/hour)
	}
	return fmt.Sprintf("%dm", minutes)
}
