package limits

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/proxy/usage"
)

// table plays the database: the pools of all limits.
type table struct {
	mu      sync.Mutex
	pools   map[string]*share.Pool
	entries map[string]share.Entry
	hosts   int
	lost    bool   // no exchange has an answer
	gone    string // a host that makes none
}

func newTable(hosts int) *table {
	return &table{pools: map[string]*share.Pool{}, entries: map[string]share.Entry{}, hosts: hosts}
}

// exchange makes one exchange of a host.
func (p *table) exchange(host string, s *Shares) {
	p.mu.Lock()
	gone := p.gone == host
	p.mu.Unlock()
	if gone {
		return
	}
	asks := s.Asks(1024)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		s.Leave()
		return
	}
	var answers []share.Answer
	for _, ask := range asks {
		name := ask.Key + " " + ask.Kind
		if p.pools[name] == nil {
			p.pools[name] = &share.Pool{At: time.Now()}
		}
		entry, answer := p.pools[name].Exchange(host, p.entries[host+" "+name], ask.Ask, time.Now())
		p.entries[host+" "+name] = entry
		answers = append(answers, answer)
	}
	s.Answered(asks, answers, p.hosts)
}

// run makes exchanges each second, and on demand, each after some milliseconds.
func (p *table) run(ctx context.Context, host string, s *Shares) {
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		p.exchange(host, s)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		case <-s.Wake():
			time.Sleep(share.Gap)
		}
	}
}

// shared are two hosts with one key, a, in a synctest bubble.
func shared(t *testing.T, limits auth.Limits, test func(t *testing.T, p *table, hosts []*Limiter, begin func(host int) string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newTable(2)
		ctx, cancel := context.WithCancel(t.Context())
		var hosts []*Limiter
		for _, name := range []string{"one", "two"} {
			l := sharing(t, limits)
			hosts = append(hosts, l)
			go p.run(ctx, name, l.shares)
		}
		test(t, p, hosts, func(host int) string {
			met, _ := hosts[host].begin("a", limits, 1)
			return met
		})
		cancel()
		synctest.Wait()
	})
}

// sharing is a limiter of the key a.
func sharing(t *testing.T, limits auth.Limits) *Limiter {
	t.Helper()
	keys := &auth.Keys{}
	_, line, err := auth.Generate("a")
	require.NoError(t, err)
	for _, word := range limits.Words() {
		line += " " + word
	}
	require.NoError(t, keys.Replace(line))
	return NewLimiter(Settings{
		Keys: keys, Shares: NewShares(),
		Usage: usage.New(usage.Settings{Registry: prometheus.NewRegistry()}),
	})
}

// Two hosts admit together what one would.
func TestSharedRequestsPerMinute(t *testing.T) {
	limits := auth.Limits{RequestsPerMinute: 60}
	shared(t, limits, func(t *testing.T, _ *table, hosts []*Limiter, begin func(int) string) {
		began, admitted := time.Now(), 0
		for i := range 200 {
			if begin(i%2) == "" {
				admitted++
			}
			time.Sleep(5 * time.Millisecond)
		}
		refilled := time.Since(began).Seconds()
		assert.InDelta(t, 60+refilled, admitted, 2)
		requests, _ := hosts[0].standings("a", limits, 0)
		assert.LessOrEqual(t, requests.remaining, int64(1))
		used, _ := hosts[1].Used(hosts[1].keys.All()[0])
		assert.InDelta(t, 60, used[auth.RequestsPerMinute], 3, "of both hosts")
		time.Sleep(30 * time.Second)
		admitted = 0
		for i := range 100 {
			if begin(i%2) == "" {
				admitted++
			}
		}
		assert.InDelta(t, 30, admitted, 3)
	})
}

// What a host does not use, another one gets.
func TestSharedTurnsInFlight(t *testing.T) {
	limits := auth.Limits{Concurrent: 4}
	shared(t, limits, func(t *testing.T, p *table, hosts []*Limiter, begin func(int) string) {
		for range 4 {
			assert.Empty(t, begin(0))
		}
		assert.Equal(t, auth.Concurrent, begin(0))
		assert.Equal(t, auth.Concurrent, begin(1))
		hosts[0].end("a", limits, 1, 0)
		time.Sleep(1500 * time.Millisecond)
		assert.Empty(t, begin(1), "what the first has given back")
		assert.Equal(t, auth.Concurrent, begin(0))

		p.mu.Lock() // the first is lost, and its lease over
		p.gone = "one"
		name := "a " + auth.Concurrent
		p.entries["one "+name] = p.pools[name].TakeBack(p.entries["one "+name])
		p.mu.Unlock()
		time.Sleep(time.Second)
		for range 3 {
			assert.Empty(t, begin(1))
		}
		assert.Equal(t, auth.Concurrent, begin(1))
	})
}

// The cost of a request is known at its end, on all hosts.
func TestSharedTokens(t *testing.T) {
	for kind, limits := range map[string]auth.Limits{
		auth.TokensPerMinute: {TokensPerMinute: 600}, auth.TokensPerDay: {TokensPerDay: 600},
	} {
		t.Run(kind, func(t *testing.T) {
			shared(t, limits, func(t *testing.T, _ *table, hosts []*Limiter, begin func(int) string) {
				tokens := int64(0)
				for i := range 60 {
					if begin(i%2) == "" {
						hosts[i%2].end("a", limits, 1, 50)
						tokens += 50
					}
					time.Sleep(20 * time.Millisecond)
				}
				assert.InDelta(t, 600, tokens, 110, "a host may exceed it by one request")
				met, wait := hosts[0].begin("a", limits, 1)
				assert.Equal(t, kind, met)
				assert.Positive(t, wait)
				time.Sleep(25 * time.Hour)
				assert.Empty(t, begin(1))
			})
		})
	}
}

// Without the database a request waits once, for a moment. Then each host goes on with its part, and nobody waits.
func TestSharesWithoutTheDatabase(t *testing.T) {
	limits := auth.Limits{RequestsPerMinute: 60, Concurrent: 1000}
	shared(t, limits, func(t *testing.T, p *table, hosts []*Limiter, begin func(int) string) {
		p.mu.Lock()
		p.lost = true
		p.mu.Unlock()
		admitted := 0
		for range 100 {
			began := time.Now()
			if begin(0) == "" {
				admitted++
			}
			assert.LessOrEqual(t, time.Since(began), patience)
		}
		assert.Equal(t, 1, admitted, "and what is refilled")
		p.mu.Lock()
		p.lost = false
		p.mu.Unlock()
		time.Sleep(2 * time.Second)
		for host := range hosts {
			assert.Empty(t, begin(host))
		}

		p.mu.Lock()
		p.lost = true
		p.mu.Unlock()
		time.Sleep(2 * time.Second)
		admitted = 0
		for range 100 {
			if begin(1) == "" {
				admitted++
			}
		}
		assert.LessOrEqual(t, admitted, 35, "its part")
	})
}

// A request that waits for a database that hangs goes on soon.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := auth.Limits{RequestsPerMinute: 60}
		l := sharing(t, limits)
		began := time.Now()
		met, _ := l.begin("a", limits, 1)
		assert.Empty(t, met)
		assert.Equal(t, patience, time.Since(began))
		met, _ = l.begin("a", limits, 1)
		assert.Equal(t, auth.RequestsPerMinute, met)
		assert.Equal(t, patience, time.Since(began), "the second does not wait")
		time.Sleep(time.Second)
		met, _ = l.begin("a", limits, 1)
		assert.Empty(t, met, "out of the refill")
	})
}

// The next process of a reload brings to the database what the one before has not brought, and counts its turns.
func TestSharesOfTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := auth.Limits{RequestsPerMinute: 60, Concurrent: 10}
		before, after, p := sharing(t, limits), sharing(t, limits), newTable(1)
		ctx, cancel := context.WithCancel(t.Context())
		go p.run(ctx, "before", before.shares)
		for range 5 {
			met, _ := before.begin("a", limits, 1)
			assert.Empty(t, met)
		}
		cancel()
		synctest.Wait()
		before.shares.Leave()
		after.RecallKeys(before.KeyLevels(), before.KeyUses())
		p.mu.Lock()
		for name, pool := range p.pools { // as codex.take_back does
			p.entries["after "+name] = pool.TakeBack(p.entries["before "+name])
		}
		p.mu.Unlock()
		p.exchange("after", after.shares)
		assert.InDelta(t, 5, p.pools["a "+auth.RequestsPerMinute].Used, 0.2)
		assert.GreaterOrEqual(t, p.entries["after a "+auth.Concurrent].Held, 5.0)
		before.end("a", limits, 3, 0)
		after.KeysElsewhere(before.KeyUses())
		time.Sleep(20 * time.Second)
		p.exchange("after", after.shares)
		assert.InDelta(t, 2, p.entries["after a "+auth.Concurrent].Held, 0)
	})
}

// A key that is not used any more is not asked for.
func TestUnusedKeyIsForgotten(t *testing.T) {
	limits := auth.Limits{RequestsPerMinute: 60, TokensPerDay: 100, Concurrent: 4}
	shared(t, limits, func(t *testing.T, p *table, hosts []*Limiter, begin func(int) string) {
		assert.Empty(t, begin(0))
		hosts[0].end("a", limits, 1, 7)
		time.Sleep(time.Minute)
		hosts[0].shares.mu.Lock()
		assert.Empty(t, hosts[0].shares.keys)
		hosts[0].shares.mu.Unlock()
		p.mu.Lock()
		for name, pool := range p.pools {
			assert.InDelta(t, 0, pool.Held, 1e-9, name)
			assert.InDelta(t, 0, pool.Demand, 1e-9, name)
		}
		assert.InDelta(t, 7, p.pools["a "+auth.TokensPerDay].Used, 0)
		p.mu.Unlock()
	})
}

// A long list of asks is made in parts, each key in its turn.
func TestAsksHaveABound(t *testing.T) {
	s := NewShares()
	limits := auth.Limits{RequestsPerMinute: 60, TokensPerMinute: 60, TokensPerDay: 60, Concurrent: 60}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.add(name, limits, KeyLevel{Requests: 1}, 1)
	}
	seen := map[string]bool{}
	for range 3 {
		asks := s.Asks(8)
		assert.LessOrEqual(t, len(asks), 8)
		for _, ask := range asks {
			seen[ask.Key] = true
		}
	}
	assert.Len(t, seen, 5)
}

// The limits of a host that is alone cost nothing for those of several.
func BenchmarkBegin(b *testing.B) {
	limits := auth.Limits{RequestsPerMinute: 1e12, Concurrent: 1e12}
	for name, shares := range map[string]*Shares{"alone": nil, "shared": NewShares()} {
		b.Run(name, func(b *testing.B) {
			l := NewLimiter(Settings{Keys: &auth.Keys{}, Shares: shares})
			if shares != nil {
				shares.leave()
			}
			b.ReportAllocs()
			for range b.N {
				_, _ = l.begin("a", limits, 1)
				l.end("a", limits, 1, 0)
			}
		})
	}
}
