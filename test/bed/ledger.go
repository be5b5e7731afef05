package bed

import (
	"sync"
	"testing"
	"time"

	"codex-proxy/test/await"
)

// Ledger is all requests of a crowd.
type Ledger struct {
	Mu      sync.Mutex
	all     []*Entry // ended requests, in the order of their ends
	Running map[*Entry]bool
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger { return &Ledger{Running: map[*Entry]bool{}} }

// Begin records the start of a request.
func (l *Ledger) Begin(e *Entry) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	e.ledger, e.Began = l, time.Now()
	l.Running[e] = true
}

func (l *Ledger) received(e *Entry) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if e.First.IsZero() {
		e.First = time.Now()
	}
}

// End records the end of a request.
func (l *Ledger) End(e *Entry) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	e.Ended = time.Now()
	delete(l.Running, e)
	l.all = append(l.all, e)
}

// Open are the ids of requests that began before a time, or ever, and have not ended.
func (l *Ledger) Open(before ...time.Time) (ids []string) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for e := range l.Running {
		if len(before) == 0 || e.Began.Before(before[0]) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Which are the requests that have ended and satisfy ok.
func (l *Ledger) Which(ok func(*Entry) bool) (list []*Entry) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, e := range l.all {
		if ok(e) {
			list = append(list, e)
		}
	}
	return list
}

// Within is a period of the test.
type Within struct{ From, To time.Time }

// Began reports whether the request began in the period.
func (w Within) Began(e *Entry) bool { return !e.Began.Before(w.From) && e.Began.Before(w.To) }

// Latencies are those of the complete requests that began in a period.
func (l *Ledger) Latencies(w Within) (s Sample) {
	for _, e := range l.Which(func(e *Entry) bool { return w.Began(e) && e.Complete() }) {
		s = append(s, e.latency())
	}
	return s
}

// Reach waits until that many more requests have ended.
func (l *Ledger) Reach(t *testing.T, more int) {
	t.Helper()
	count := func() int { return len(l.Which(func(*Entry) bool { return true })) }
	goal := count() + more
	await.True(t, func() bool { return count() >= goal }, 2*Bound)
}
