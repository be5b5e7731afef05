package proxy

import (
	"time"

	"codex-proxy/test/bed"
)

// begun counts the streams whose client has a part of the answer.
func begun(l *bed.Ledger) int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	n := 0
	for e := range l.Running {
		if e.Stream && !e.First.IsZero() {
			n++
		}
	}
	return n
}

// waiting counts the requests from before a time that have nothing of their answer yet.
func waiting(l *bed.Ledger, before time.Time) int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	n := 0
	for e := range l.Running {
		if e.First.IsZero() && e.Began.Before(before) {
			n++
		}
	}
	return n
}
