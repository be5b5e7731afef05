package integration

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ledger is all requests of a crowd.
type ledger struct {
	mu      sync.Mutex
	all     []*entry // ended requests, in the order of their ends
	running map[*entry]bool
}

func newLedger() *ledger { return &ledger{running: map[*entry]bool{}} }

func (l *ledger) begin(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ledger, e.began = l, time.Now()
	l.running[e] = true
}

func (l *ledger) received(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.first.IsZero() {
		e.first = time.Now()
	}
}

func (l *ledger) end(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ended = time.Now()
	delete(l.running, e)
	l.all = append(l.all, e)
}

// begun counts the streams whose client has a part of the answer.
func (l *ledger) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for e := range l.running {
		if e.stream && !e.first.IsZero() {
			n++
		}
	}
	return n
}

// waiting counts the requests from before a time that have nothing of their answer yet.
func (l *ledger) waiting(before time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for e := range l.running {
		if e.first.IsZero() && e.began.Before(before) {
			n++
		}
	}
	return n
}

// open are the ids of requests that began before a time, or ever, and have not ended.
func (l *ledger) open(before ...time.Time) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.running {
		if len(before) == 0 || e.began.Before(before[0]) {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// which are the requests that have ended and satisfy ok.
func (l *ledger) which(ok func(*entry) bool) (list []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if ok(e) {
			list = append(list, e)
		}
	}
	return list
}

// within is a period of the test.
type within struct{ from, to time.Time }

func (w within) began(e *entry) bool { return !e.began.Before(w.from) && e.began.Before(w.to) }

// latencies are those of the complete requests that began in a period.
func (l *ledger) latencies(w within) (s sample) {
	for _, e := range l.which(func(e *entry) bool { return w.began(e) && e.complete() }) {
		s = append(s, e.latency())
	}
	return s
}

// outlast waits for the ends of all requests that began before a time.
func (l *ledger) outlast(t *testing.T, before time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return len(l.open(before)) == 0 }, 2*bound, 10*time.Millisecond)
}

// reach waits until that many more requests have ended.
func (l *ledger) reach(t *testing.T, more int) {
	t.Helper()
	count := func() int { return len(l.which(func(*entry) bool { return true })) }
	goal := count() + more
	require.Eventually(t, func() bool { return count() >= goal }, 2*bound, 10*time.Millisecond)
}
