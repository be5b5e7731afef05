package proxy

import (
	"strings"
	"time"

	"codex-proxy/codex/turnerror"
	"codex-proxy/internal/lazyregexp"
)

var inTime = lazyregexp.New(`(?i)(?:try again in|retry after) +((?:\d+(?:\.\d+)?(?:ms|h|m|s))+|\d+(?:\.\d+)? seconds?)`)

// retryIn is the wait that the model endpoint names in its words, as OpenAI does ("Please try again in 1.2s"): rounded
// up, and an hour at most; otherwise if it names none.
func retryIn(words string, otherwise time.Duration) time.Duration {
	m := inTime.FindStringSubmatch(words)
	if m == nil {
		return otherwise
	}
	number, unit, _ := strings.Cut(m[1], " ")
	if unit != "" {
		number += "s"
	}
	d, err := time.ParseDuration(strings.ToLower(number))
	if err != nil {
		return otherwise
	}
	whole := (d + time.Second - 1).Truncate(time.Second)
	return min(max(whole, time.Second), time.Hour)
}

// resetAt is the end of a usage limit in codex's words ("try again at Mar 17th, 2030 5:46 PM"), in a sentence; empty
// if they have none.
func resetAt(e *turnerror.Error) string {
	at := e.TryAgain()
	if at == "" {
		return ""
	}
	return "the worker's account has reached its usage limit; try again at " + at
}
