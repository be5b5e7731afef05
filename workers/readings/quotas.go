package readings

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/workers/accounts"
)

// Quotas has one reading of each quota in flight at a time, whichever worker asks codex.
type Quotas struct {
	store *accounts.Store
	total *prometheus.CounterVec // by account and result

	mu     sync.Mutex
	quotas map[string]*lastReading // by the identity of the quota
}

// lastReading is the last reading of one quota.
type lastReading struct {
	turn chan struct{} // capacity 1: holds a token while a reading is under way

	mu    sync.Mutex // guards the rest
	begun time.Time
	by    *Session
	err   error
}

// The results of readings.
const (
	readOK           = "ok"
	readFailed       = "failed"
	readLoginInvalid = "login_invalid"
)

// NewQuotas creates the quotas of the accounts of a store.
func NewQuotas(store *accounts.Store) *Quotas {
	q := &Quotas{store: store, quotas: map[string]*lastReading{}}
	q.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_account_readings_total",
		Help: "Readings of the account's quota, which use none of it, by result.",
	}, []string{"account", "result"})
	for _, v := range store.Views(time.Now()) {
		for _, result := range []string{readOK, readFailed, readLoginInvalid} {
			q.total.WithLabelValues(v.Name, result)
		}
	}
	return q
}

// Readings counts the readings, by account and result.
func (q *Quotas) Readings() prometheus.Collector { return q.total }

// count counts a reading by its error, which it returns.
func (q *Quotas) count(name string, err error) error {
	result := readOK
	switch {
	case errors.Is(err, errLoginInvalid):
		result = readLoginInvalid
	case err != nil:
		result = readFailed
	}
	q.total.WithLabelValues(name, result).Inc()
	return err
}

// last is the last reading of the quota of the named account.
func (q *Quotas) last(name string) *lastReading {
	v, _ := q.store.View(name, time.Now())
	key := cmp.Or(v.QuotaID, "worker "+name)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quotas[key] == nil {
		q.quotas[key] = &lastReading{turn: make(chan struct{}, 1)}
	}
	return q.quotas[key]
}

// next is when the named account is to be read, if its worker last tried at tried.
func (q *Quotas) next(name string, tried, now time.Time) time.Time {
	begun, _ := q.last(name).look()
	if tried.After(begun) {
		begun = tried
	}
	return q.store.NextRead(name, begun, now)
}

// once calls read, unless a reading of the same quota has just ended that began after the
// session: then that one counts. It returns when that reading began.
func (q *Quotas) once(ctx context.Context, s *Session, read func(begun time.Time) error) (time.Time, error) {
	name := s.reader.worker
	last := q.last(name)
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-ctx.Done():
		return time.Now(), ctx.Err()
	}
	v, _ := q.store.View(name, time.Now())
	begun, err := last.look()
	if time.Since(begun) < accounts.LeastInterval && begun.After(s.began) &&
		last.holds(s, v.State == accounts.LoginInvalid) {
		return begun, err
	}
	begun = time.Now()
	last.set(begun, s, nil)
	err = q.count(name, read(begun))
	last.set(begun, s, err)
	return begun, err
}

func (l *lastReading) look() (begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun, l.err
}

func (l *lastReading) set(begun time.Time, by *Session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun, l.by, l.err = begun, by, err
}

// holds reports whether the result also applies to the session: a failure may be one of
// another worker, and another worker's login proves nothing about one that was refused.
func (l *lastReading) holds(s *Session, invalid bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by == s || l.err == nil && !invalid
}
