package inflight

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/limits"
	"codex-proxy/workers"
)

func TestLoadPlus(t *testing.T) {
	a := Load{
		Workers: map[string]workers.Load{"x": {Turns: 1}},
		Keys:    map[string]limits.KeyUse{"k": {Running: 1, Tokens: 5}}, Claims: 7,
	}
	b := Load{
		Workers: map[string]workers.Load{"x": {Turns: 2}, "y": {Turns: 3}},
		Keys:    map[string]limits.KeyUse{"k": {Running: 2}}, Waiting: true, Confirmed: 9,
	}
	assert.Equal(t, Load{
		Workers: map[string]workers.Load{"x": {Turns: 3}, "y": {Turns: 3}},
		Keys:    map[string]limits.KeyUse{"k": {Running: 3, Tokens: 5}}, Waiting: true,
	}, a.Plus(b))
	assert.Equal(t, map[string]workers.Load{"x": {Turns: 1}}, a.Workers)
}

func newLedger() *Counter {
	return New(Settings{
		Own: func() Load { return Load{} }, Elsewhere: func(Load) {}, Changed: func() {}, Freed: func() {},
		Logger: slog.New(slog.DiscardHandler),
	})
}

// A claim waits for a successor that hangs once, and for none that has ended.
func TestClaimWithoutConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		assert.False(t, l.Claim(), "there is no successor")
		l.SetClaiming(true)
		began := time.Now()
		assert.True(t, l.Claim())
		assert.Equal(t, claimBound, time.Since(began))
		assert.True(t, l.Claim())
		assert.Equal(t, claimBound, time.Since(began))

		l = newLedger()
		l.SetClaiming(true)
		claimed := make(chan bool)
		go func() { claimed <- l.Claim() }()
		synctest.Wait()
		l.SetClaiming(false)
		assert.True(t, <-claimed)
		assert.Equal(t, claimBound, time.Since(began))
	})
}

// A claim of the predecessor is confirmed when the successor has confirmed it.
func TestForwardedClaim(t *testing.T) {
	l := newLedger()
	l.SetClaiming(true)
	l.SetBefore(Load{Claims: 3})
	_, due := l.ForPredecessor()
	assert.False(t, due, "the successor has not confirmed it")
	assert.EqualValues(t, 1, l.ForSuccessor().Claims)
	l.SetAfter(Load{Confirmed: 1})
	load, due := l.ForPredecessor()
	assert.True(t, due)
	assert.EqualValues(t, 3, load.Confirmed)
}
