package workers

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/workers/accounts"
)

// readings has one reading of each quota in flight at a time, whichever worker asks codex.
type readings struct {
	book  *accounts.Book
	total *prometheus.CounterVec // by account and result

	mu     sync.Mutex
	quotas map[string]*lastReading // by the identity of the quota
}

// lastReading is the last reading of one quota.
type lastReading struct {
	turn chan struct{} // capacity 1: holds a token while a reading is under way

	mu    sync.Mutex // guards the rest
	begun time.Time
	by    *session
	err   error
}

// The results of readings.
const (
	readOK           = "ok"
	readFailed       = "failed"
	readLoginInvalid = "login_invalid"
)

func newReadings(book *accounts.Book) *readings {
	r := &readings{book: book, quotas: map[string]*lastReading{}}
	r.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_account_readings_total",
		Help: "Readings of the account's quota, which use none of it, by result.",
	}, []string{"account", "result"})
	for _, v := range book.Views(time.Now()) {
		for _, result := range []string{readOK, readFailed, readLoginInvalid} {
			r.total.WithLabelValues(v.Name, result)
		}
	}
	return r
}

// count counts a reading by its error, which it returns.
func (r *readings) count(name string, err error) error {
	result := readOK
	switch {
	case errors.Is(err, errLoginInvalid):
		result = readLoginInvalid
	case err != nil:
		result = readFailed
	}
	r.total.WithLabelValues(name, result).Inc()
	return err
}

// last is the last reading of the quota of the named account.
func (r *readings) last(name string) *lastReading {
	v, _ := r.book.View(name, time.Now())
	key := cmp.Or(v.QuotaID, "worker "+name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quotas[key] == nil {
		r.quotas[key] = &lastReading{turn: make(chan struct{}, 1)}
	}
	return r.quotas[key]
}

// next is when the named account is to be read, if its worker last tried at tried.
func (r *readings) next(name string, tried, now time.Time) time.Time {
	begun, _ := r.last(name).look()
	if tried.After(begun) {
		begun = tried
	}
	return r.book.NextReading(name, begun, now)
}

// once calls read, unless a reading of the same quota has just ended that began after the
// session: then that one counts. It returns when that reading began.
func (r *readings) once(ctx context.Context, s *session, read func(begun time.Time) error) (time.Time, error) {
	name := s.worker.name
	last := r.last(name)
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-ctx.Done():
		return time.Now(), ctx.Err()
	}
	v, _ := r.book.View(name, time.Now())
	begun, err := last.look()
	if time.Since(begun) < accounts.LeastInterval && begun.After(s.began) &&
		last.holds(s, v.State == accounts.LoginInvalid) {
		return begun, err
	}
	begun = time.Now()
	last.set(begun, s, nil)
	err = r.count(name, read(begun))
	last.set(begun, s, err)
	return begun, err
}

func (l *lastReading) look() (begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun, l.err
}

func (l *lastReading) set(begun time.Time, by *session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun, l.by, l.err = begun, by, err
}

// holds reports whether the result also applies to the session: a failure may be one of
// another worker, and another worker's login proves nothing about one that was refused.
func (l *lastReading) holds(s *session, invalid bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by == s || l.err == nil && !invalid
}
