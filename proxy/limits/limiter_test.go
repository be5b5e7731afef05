package limits

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

// limited is a limiter of one key, a, in a synctest bubble.
func limited(t *testing.T, limits auth.Limits,
	test func(t *testing.T, l *Limiter, begin func() (string, time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Settings{Usage: usage.New(usage.Settings{Registry: prometheus.NewRegistry()})})
		test(t, l, func() (string, time.Duration) { return l.begin("a", limits, 1) })
	})
}

func TestRequestsPerMinute(t *testing.T) {
	limits := auth.Limits{RequestsPerMinute: 3}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		for range 3 {
			met, _ := begin()
			assert.Empty(t, met)
		}
		met, wait := begin()
		assert.Equal(t, auth.RequestsPerMinute, met)
		assert.Equal(t, 20*time.Second, wait)
		requests, tokens := l.standings("a", limits, 0)
		assert.Equal(t, &standing{limit: 3, remaining: 0, reset: time.Minute}, requests)
		assert.Nil(t, tokens)

		time.Sleep(wait - time.Millisecond)
		met, _ = begin()
		assert.NotEmpty(t, met)
		time.Sleep(time.Millisecond)
		met, _ = begin()
		assert.Empty(t, met, "after the time that it was told")
		met, _ = begin()
		assert.NotEmpty(t, met, "and one only")

		time.Sleep(time.Hour)
		requests, _ = l.standings("a", limits, 0)
		assert.Equal(t, &standing{limit: 3, remaining: 3}, requests, "never more than a minute's worth")
	})
}

// What a request costs is known at its end: one may overshoot, and the key pays
// the debt off before the next is let in.
func TestTokensPerMinute(t *testing.T) {
	limits := auth.Limits{TokensPerMinute: 60}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		met, _ := begin()
		assert.Empty(t, met)
		time.Sleep(time.Hour) // a long answer earns nothing beyond the minute's worth
		l.end("a", limits, 1, 180)
		met, wait := begin()
		assert.Equal(t, auth.TokensPerMinute, met)
		assert.Equal(t, 121*time.Second, wait)
		_, tokens := l.standings("a", limits, 0)
		assert.Equal(t, &standing{limit: 60, reset: 3 * time.Minute}, tokens)
		time.Sleep(wait)
		met, _ = begin()
		assert.Empty(t, met)
		_, tokens = l.standings("a", limits, 1)
		assert.Equal(t, int64(0), tokens.remaining, "what is about to be counted is counted")
	})
}

func TestTokensPerDay(t *testing.T) {
	limits := auth.Limits{TokensPerDay: 100}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		time.Sleep(23 * time.Hour) // the bubble's clock starts at midnight UTC
		l.usage.Add("a", "m", usage.Share{Account: "default", Counts: usage.Counts{InputTokens: 60, OutputTokens: 30}})
		met, _ := begin()
		assert.Empty(t, met)
		_, tokens := l.standings("a", limits, 0)
		assert.Equal(t, &standing{limit: 100, remaining: 10, reset: time.Hour}, tokens)
		l.usage.Add("a", "m", usage.Share{Account: "default", Counts: usage.Counts{OutputTokens: 30}})
		met, wait := begin()
		assert.Equal(t, auth.TokensPerDay, met)
		assert.Equal(t, time.Hour, wait)
		time.Sleep(wait)
		met, _ = begin()
		assert.Empty(t, met, "a new day")
	})
}

func TestConcurrent(t *testing.T) {
	limits := auth.Limits{Concurrent: 2}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		for _, want := range []string{"", "", auth.Concurrent} {
			met, _ := begin()
			assert.Equal(t, want, met)
		}
		l.end("a", limits, 1, 5)
		met, _ := begin()
		assert.Empty(t, met)
		used, refused := l.uses("a", limits)
		assert.Equal(t, map[string]float64{auth.Concurrent: 2}, used)
		assert.Equal(t, map[string]float64{auth.Concurrent: 1}, refused)
	})
}

// A request of several turns takes up as much as several requests.
func TestTurnsOfARequest(t *testing.T) {
	limits := auth.Limits{Concurrent: 5, RequestsPerMinute: 6}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		met, _ := l.begin("a", limits, 4)
		assert.Empty(t, met)
		met, _ = l.begin("a", limits, 2)
		assert.Equal(t, auth.Concurrent, met)
		met, _ = begin()
		assert.Empty(t, met)
		l.end("a", limits, 4, 0)
		met, wait := l.begin("a", limits, 3)
		assert.Equal(t, auth.RequestsPerMinute, met)
		assert.Equal(t, 20*time.Second, wait)
		time.Sleep(wait)
		met, _ = l.begin("a", limits, 3)
		assert.Empty(t, met)
		used, _ := l.uses("a", limits)
		assert.Equal(t, map[string]float64{auth.Concurrent: 4, auth.RequestsPerMinute: 6}, used)
	})
}

// A limit that is changed holds for what has been used; one that is taken away
// leaves no debt behind.
func TestLimitsChange(t *testing.T) {
	limited(t, auth.Limits{}, func(t *testing.T, l *Limiter, _ func() (string, time.Duration)) {
		begin := func(perMinute int64) string {
			met, _ := l.begin("a", auth.Limits{RequestsPerMinute: perMinute}, 1)
			return met
		}
		for range 100 {
			assert.Empty(t, begin(0))
		}
		assert.Empty(t, begin(2), "what was used without a limit does not count")
		assert.Empty(t, begin(2))
		assert.NotEmpty(t, begin(2))
		assert.Empty(t, begin(3))
	})
}

func TestMetersOfRevokedKeysAreForgotten(t *testing.T) {
	l := NewLimiter(Settings{})
	for _, name := range []string{"running", "gone"} {
		met, _ := l.begin(name, auth.Limits{}, 1)
		assert.Empty(t, met)
	}
	l.end("gone", auth.Limits{}, 1, 0)
	l.refuse("new", auth.Models)
	assert.Len(t, l.meters, 2)
	assert.NotContains(t, l.meters, "gone")
}

// What other processes let in counts, and no longer when they have ended.
func TestKeysElsewhere(t *testing.T) {
	limits := auth.Limits{Concurrent: 2, RequestsPerMinute: 60, TokensPerMinute: 600}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		keys, err := auth.Parse(strings.NewReader("a " + strings.Repeat("ab", 32) +
			" concurrent=2 requests-per-minute=60 tokens-per-minute=600\n"))
		require.NoError(t, err)
		l.keys = keys
		l.RecallKeys(map[string]KeyLevel{"a": {Requests: 30, Tokens: 100}},
			map[string]KeyUse{"a": {Running: 1, Requests: 7, Tokens: 70}})
		assert.Equal(t, map[string]KeyLevel{"a": {Requests: 30, Tokens: 100}}, l.KeyLevels())
		met, _ := begin()
		assert.Empty(t, met)
		met, _ = begin()
		assert.Equal(t, auth.Concurrent, met)
		l.KeysElsewhere(map[string]KeyUse{"a": {Requests: 9, Tokens: 270}})
		assert.Equal(t, map[string]KeyLevel{"a": {Requests: 33, Tokens: 300}}, l.KeyLevels())
		assert.Equal(t, map[string]KeyUse{"a": {Running: 1, Requests: 1}}, l.KeyUses())
		l.KeysElsewhere(nil)
		assert.Equal(t, map[string]KeyLevel{"a": {Requests: 33, Tokens: 300}}, l.KeyLevels(), "what was used was used")
		l.end("a", limits, 1, 5)
		assert.Equal(t, map[string]KeyUse{"a": {Requests: 1, Tokens: 5}}, l.KeyUses())
	})
}

// A request that another process has let in meanwhile takes precedence.
func TestClaimOfAKey(t *testing.T) {
	limits := auth.Limits{Concurrent: 1}
	limited(t, limits, func(t *testing.T, l *Limiter, begin func() (string, time.Duration)) {
		others, changes, counted := map[string]KeyUse{"a": {Running: 1}}, 0, []map[string]KeyUse{}
		l.changed = func() { changes++ }
		l.claim = func() bool {
			counted = append(counted, l.KeyUses())
			l.KeysElsewhere(others)
			return true
		}
		met, _ := begin()
		assert.Equal(t, auth.Concurrent, met)
		assert.Empty(t, l.KeyUses())
		assert.Equal(t, 1, changes)
		assert.Equal(t, []map[string]KeyUse{{"a": {Running: 1}}}, counted)
		others = nil // that request has ended, and nobody has sent that
		met, _ = begin()
		assert.Empty(t, met)
	})
}
