// Package await waits in tests for what no event reports: it asks again and again.
package await

import (
	"cmp"
	"context"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// shortest and longest are the bounds of a pause, unless a question takes long or Pace.Longest is set.
	shortest, longest = time.Millisecond, 100 * time.Millisecond
	// share is the part of the time waited so far that a pause adds: what came meanwhile is found that much later.
	share = 16
	// idle is how many times as long as its last question a pause is: the machine under test has the processor, and not
	// the questions about it.
	idle = 3
)

// Pace is the pace of the questions of one wait. They are frequent at first, and become rarer the longer it takes and
// the more each costs. The zero value begins with its first pause.
type Pace struct {
	Longest time.Duration // of a pause, unless a question takes long; 0: a tenth of a second

	began, asked time.Time
}

// Pause pauses until the next question, or until ctx ends.
func (p *Pace) Pause(ctx context.Context) {
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.asked = now, now
	}
	timer := time.NewTimer(next(now.Sub(p.began), now.Sub(p.asked), cmp.Or(p.Longest, longest)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.asked = time.Now()
}

// next is the pause after a time of waiting and a question that took that long.
func next(waited, question, most time.Duration) time.Duration {
	return max(shortest, min(waited/share, most), idle*question)
}

// True asks until ok, and fails t if that takes too long.
func True(t require.TestingT, ok func() bool, within time.Duration, message ...any) {
	if h, is := t.(interface{ Helper() }); is {
		h.Helper()
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for pace := (Pace{}); !ok(); pace.Pause(ctx) {
		if ctx.Err() != nil {
			require.Fail(t, "the condition never held", message...)
		}
	}
}
