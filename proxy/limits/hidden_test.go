package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

func shareOf(tokens int64) usage.Share {
	return usage.Share{Account: "w", Counts: usage.Counts{InputTokens: tokens}}
}

// The use of requests that codex makes by itself counts for the key whose request its thread has served, before the end
// of that request and after it.
func TestHiddenUse(t *testing.T) {
	limits := auth.Limits{TokensPerMinute: 100}
	limited(t, limits, func(t *testing.T, l *Limiter, _ func() (string, time.Duration)) {
		g := l.Grant(auth.Key{Name: "a", Limits: limits}, NewMemory(1, 0))
		assert.NoError(t, g.Admit(1))
		l.Charge([]string{"of an agent", "thread"}, shareOf(30))
		l.Charge([]string{"of nobody"}, shareOf(1000))
		l.Charge([]string{"thread"}, usage.Share{Account: "another", Counts: usage.Counts{InputTokens: 1000}})
		assert.Zero(t, l.usage.Today("a"))
		g.Settle("model", []usage.Share{{Account: "w", Counts: usage.Counts{Requests: 1, OutputTokens: 10}}}, "thread")
		assert.EqualValues(t, 40, l.usage.Today("a"))
		l.Charge([]string{"thread"}, shareOf(20))
		assert.EqualValues(t, 60, l.usage.Today("a"))
		_, tokens := l.standings("a", limits, 0)
		assert.EqualValues(t, 40, tokens.remaining)
	})
}

func TestHiddenUseIsBounded(t *testing.T) {
	h := hidden{}
	for n := range mostOwners + 1 {
		h.own(fmt.Sprint(n), owner{})
	}
	h.own("1", owner{model: "m"})
	assert.Len(t, h.owners, mostOwners)
	assert.Len(t, h.order, mostOwners)
	for n := range mostEarly + 2 {
		_, known := h.ownerOf(use{threads: []string{"0", fmt.Sprint("early ", n)}})
		assert.False(t, known)
	}
	assert.Len(t, h.early, mostEarly)
	assert.Len(t, h.own("early 2", owner{}), 1)
	assert.Empty(t, h.own("early 1", owner{}), "it was forgotten")
}
