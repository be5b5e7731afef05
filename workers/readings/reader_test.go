package readings

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/workers/accounts"
)

// schedule runs the readings of the named worker for a while, as its session does, and
// returns when each began.
func schedule(t *testing.T, store *accounts.Store, q *Quotas, name string, span time.Duration,
	read func(begun time.Time) error,
) []time.Duration {
	t.Helper()
	a := NewReader(name, q, slog.New(slog.DiscardHandler))
	s := a.Begin(nil, time.Time{}, nil)
	began := time.Now()
	timer, end := time.NewTimer(0), time.After(span)
	defer timer.Stop()
	var readings []time.Duration
	for {
		select {
		case <-end:
			return readings
		case <-timer.C:
		case <-a.wake:
		}
		f, wait := a.start(func(tried time.Time) time.Duration {
			now := time.Now()
			return q.next(name, tried, now).Sub(now)
		})
		timer.Reset(wait)
		if f == nil {
			continue
		}
		tried, err := q.once(context.Background(), s, func(begun time.Time) error {
			readings = append(readings, begun.Sub(began))
			return read(begun)
		})
		a.finish(tried, err)
	}
}

// Two workers of one account: one of them reads, also if both are asked at once. The result
// of another worker is no proof for a login that was refused.
func TestReadingsOfOneQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := accounts.NewStore(accounts.Policy{}, []string{"a", "b"}, func() {})
		for _, name := range []string{"a", "b"} {
			store.Identify(name, accounts.Login{Type: "chatgpt", QuotaID: "x", At: time.Now()})
		}
		q := NewQuotas(store)
		one, two := &Session{reader: &Reader{worker: "a"}}, &Session{reader: &Reader{worker: "b"}}
		var begun []string
		read := func(s *Session, err error) error {
			_, err = q.once(t.Context(), s, func(time.Time) error {
				<-time.After(time.Second)
				begun = append(begun, s.reader.worker)
				return err
			})
			return err
		}
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, read(one, nil)) })
		synctest.Wait()
		both.Go(func() { assert.NoError(t, read(two, nil)) })
		both.Wait()
		assert.Equal(t, []string{"a"}, begun)
		store.Invalidate("b", time.Now())
		assert.NoError(t, read(two, nil))
		assert.Equal(t, []string{"a", "b"}, begun)
		<-time.After(accounts.LeastInterval)
		assert.Error(t, read(one, errors.New("of the first")))
		assert.NoError(t, read(two, nil), "a failure of one worker is not that of the other")
		assert.Equal(t, []string{"a", "b", "a", "b"}, begun)
		two.began = time.Now()
		assert.NoError(t, read(two, nil))
		assert.Equal(t, []string{"a", "b", "a", "b", "b"}, begun, "a new process of codex is read anew")
	})
}

func everyMinutes(n, count int) []time.Duration {
	var all []time.Duration
	for i := range count {
		all = append(all, time.Duration(i*n)*time.Minute)
	}
	return all
}

func TestSchedule(t *testing.T) {
	read := func(store *accounts.Store, used float64, resets time.Duration) func(time.Time) error {
		began := time.Now()
		return func(begun time.Time) error {
			w := accounts.NewWindow(300, used, began.Add(resets))
			store.Read("a", "x", accounts.Quota{Windows: []accounts.Window{w}, Source: accounts.Reading, At: begun})
			return nil
		}
	}
	store := func() *accounts.Store {
		return accounts.NewStore(accounts.Policy{RotateAt: 0.05}, []string{"a"}, func() {})
	}
	for name, run := range map[string]func(t *testing.T){
		"idle": func(t *testing.T) {
			b := store()
			assert.Equal(t, everyMinutes(5, 12),
				schedule(t, b, NewQuotas(b), "a", time.Hour-1, read(b, 0.5, time.Hour)))
		},
		"exhausted": func(t *testing.T) {
			b := store()
			assert.Equal(t, everyMinutes(1, 60),
				schedule(t, b, NewQuotas(b), "a", time.Hour-1, read(b, 1, 100*time.Hour)))
		},
		"exhausted until a reset": func(t *testing.T) {
			b := store()
			want := []time.Duration{0, time.Minute, 91 * time.Second, 151 * time.Second}
			assert.Equal(t, want,
				schedule(t, b, NewQuotas(b), "a", 200*time.Second, read(b, 1, 90*time.Second)))
		},
		"failing": func(t *testing.T) {
			b := store()
			fail := func(time.Time) error { return errors.New("no network") }
			assert.Equal(t, everyMinutes(5, 12), schedule(t, b, NewQuotas(b), "a", time.Hour-1, fail))
		},
		"failing while exhausted, each for its whole bound": func(t *testing.T) {
			b := store()
			first := read(b, 1, 100*time.Hour)
			got := schedule(t, b, NewQuotas(b), "a", time.Hour-1, func(begun time.Time) error {
				if first != nil {
					defer func() { first = nil }()
					return first(begun)
				}
				<-time.After(readingTimeout)
				return context.DeadlineExceeded
			})
			assert.Equal(t, everyMinutes(1, 60), got)
		},
		"invalid": func(t *testing.T) {
			b := store()
			got := schedule(t, b, NewQuotas(b), "a", time.Hour-1, func(begun time.Time) error {
				b.Invalidate("a", begun)
				return errLoginInvalid
			})
			assert.Equal(t, everyMinutes(5, 12), got)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
	}
}

// Turns' updates count as knowledge: there is no reading while they come.
func TestScheduleOfABusyAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := accounts.NewStore(accounts.Policy{}, []string{"a"}, func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var turns sync.WaitGroup
		turns.Go(func() {
			for ticks := time.Tick(time.Minute); ctx.Err() == nil; {
				b.Update("a", []accounts.Window{accounts.NewWindow(300, 0.1, time.Time{})}, time.Now())
				select {
				case <-ticks:
				case <-ctx.Done():
				}
			}
		})
		got := schedule(t, b, NewQuotas(b), "a", time.Hour, func(begun time.Time) error {
			b.Read("a", "", accounts.Quota{At: begun})
			return nil
		})
		cancel()
		assert.Equal(t, []time.Duration{0}, got)
		turns.Wait()
	})
}

// A refusal has its reading, but not more of them than one in LeastInterval.
func TestScheduleAfterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := accounts.NewStore(accounts.Policy{}, []string{"a"}, func() {})
		go func() {
			ticks := time.Tick(time.Second)
			for range 100 {
				<-ticks
				b.Refuse("a", time.Time{}, time.Now())
			}
		}()
		got := schedule(t, b, NewQuotas(b), "a", 4*time.Minute, func(begun time.Time) error {
			w := accounts.NewWindow(300, 1, time.Time{})
			b.Read("a", "", accounts.Quota{Windows: []accounts.Window{w}, At: begun})
			return nil
		})
		var pauses []time.Duration
		for i := range got[1:] {
			pauses = append(pauses, got[i+1]-got[i])
		}
		assert.GreaterOrEqual(t, slices.Min(pauses), accounts.LeastInterval)
		assert.LessOrEqual(t, slices.Max(pauses), accounts.ExhaustedInterval)
	})
}

// The end of the pause of an API key is noticed, without a reading by the account's server.
func TestScheduleOfALoginWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan accounts.State, 10)
		var b *accounts.Store
		b = accounts.NewStore(accounts.Policy{}, []string{"a"}, func() {
			v, _ := b.View("a", time.Now())
			changed <- v.State
		})
		refusal := time.AfterFunc(20*time.Second, func() { b.Refuse("a", time.Time{}, time.Now()) })
		defer refusal.Stop()
		schedule(t, b, NewQuotas(b), "a", 20*time.Minute, func(begun time.Time) error {
			b.Read("a", "", accounts.Quota{Source: accounts.Reading, At: begun})
			return nil
		})
		want := []accounts.State{accounts.Available, accounts.Exhausted, accounts.Unknown, accounts.Available}
		var got []accounts.State
		for len(changed) > 0 {
			got = append(got, <-changed)
		}
		assert.Equal(t, want, got)
	})
}
