package keyed

import (
	"sync"
	"time"
)

const (
	// maxTries bounds the wrong keys of all browsers in triesTime.
	maxTries  = 10
	triesTime = time.Minute
)

// tries counts wrong keys. Sessions that are there go on, whatever it counts.
type tries struct {
	mu    sync.Mutex
	since time.Time
	used  int
}

// take takes one try, before it is known whether the key is right: many at the same time get no more.
func (t *tries) take(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= triesTime {
		t.since, t.used = now, 0
	}
	if t.used >= maxTries {
		return false
	}
	t.used++
	return true
}

// release gives the try of a right key back.
func (t *tries) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = max(0, t.used-1)
}
