package accounts

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

const (
	// idleWatch is how long the idle accounts are watched: longer than the time between two readings of one that is
	// used up.
	idleWatch = 70 * time.Second
	// againBound is how soon an account that became available early serves turns again: a minute, and what a slow
	// machine needs.
	againBound = 75 * time.Second
)

// Idle accounts cost nothing but readings: one a minute while they are used up, and one in five minutes otherwise. When
// all are used up, one whose quota begins before the time that it had named serves turns within a minute.
func TestIdleAccounts(t *testing.T) {
	t.Parallel()
	testIdleAccounts(t, bed.Newest)
}

func testIdleAccounts(t *testing.T, suite string) {
	b := bed.NewAccounts(t, suite, ordered, "a", "b", "c")
	one, two, three := b.Server.Account("a"), b.Server.Account("b"), b.Server.Account("c")
	used := func(a *accountserver.Account) { a.Exhaust(time.Now().Add(5 * time.Hour)) }
	used(one)
	b.Start()
	b.UntilWorkersReady()
	b.UntilMetric(`codex_account_state{account="a",state="exhausted"} 1`)
	b.UntilMetric(`codex_account_state{account="b",state="available"} 1`)
	b.UntilMetric(`codex_account_state{account="c",state="available"} 1`)

	from := time.Now()
	bed.Pause(t.Context(), idleWatch)
	exhausted, idle := readings(one, from), max(readings(two, from), readings(three, from))
	t.Logf("readings in %s: %d of an account that is used up, %d of the others", idleWatch, exhausted, idle)
	assert.Positive(t, exhausted)
	assert.LessOrEqual(t, exhausted, 2)
	assert.LessOrEqual(t, idle, 1)
	for _, account := range b.Server.Accounts() {
		assert.Empty(t, account.Record().Turns, "readings are no turns")
	}

	used(two)
	used(three)
	for range 2 {
		b.Chat(false, "[[text which account has quota?]]")
	}
	b.UntilMetric(`codex_account_state{account="b",state="exhausted"} 1`)
	b.UntilMetric(`codex_account_state{account="c",state="exhausted"} 1`)
	status, header, body := b.Chat(false, "[[text none]]")
	assert.Equal(t, http.StatusTooManyRequests, status, body)
	assert.Contains(t, body, `"usage_limit_reached"`)
	assert.NotEmpty(t, header.Get("Retry-After"))
	turns := len(two.Record().Turns) + len(three.Record().Turns)
	two.Reset()
	reset := time.Now()
	for status != http.StatusOK && time.Since(reset) < againBound {
		status, _, body = b.Chat(false, "[[text early]]")
		bed.Pause(t.Context(), time.Second/2)
	}
	t.Logf("an account whose quota began early served a turn %s later", time.Since(reset).Round(time.Second/10))
	assert.Equal(t, http.StatusOK, status, body)
	assert.Len(t, two.Record().Turns, turns-len(three.Record().Turns)+1, "turns while all were used up")
	assert.Empty(t, one.Record().Turns)
}

// readings counts the readings of an account since a time.
func readings(a *accountserver.Account, from time.Time) (n int) {
	for _, at := range a.Record().Readings {
		if at.After(from) {
			n++
		}
	}
	return n
}
