package daemon

import (
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/workers"
)

// A version that does not know of claims tells its turns when it has heard news.
func TestInflightOfAnotherVersion(t *testing.T) {
	var told turnsBefore
	require.NoError(t, json.Unmarshal([]byte(`{"drains":1,"inflight":{"default":2}}`), &told))
	assert.Equal(t, inflight{Workers: map[string]workers.Load{"default": {Turns: 2}}}, told.load())
}

func TestInflightPlus(t *testing.T) {
	a := inflight{Workers: map[string]workers.Load{"x": {Turns: 1}}, Keys: map[string]limits.KeyUse{"k": {Running: 1, Tokens: 5}}, Claims: 7}
	b := inflight{Workers: map[string]workers.Load{"x": {Turns: 2}, "y": {Turns: 3}}, Keys: map[string]limits.KeyUse{"k": {Running: 2}}, Waits: true, Heard: 9}
	assert.Equal(t, inflight{
		Workers: map[string]workers.Load{"x": {Turns: 3}, "y": {Turns: 3}}, Keys: map[string]limits.KeyUse{"k": {Running: 3, Tokens: 5}}, Waits: true,
	}, a.plus(b))
	assert.Equal(t, map[string]workers.Load{"x": {Turns: 1}}, a.Workers)
}

// A claim waits for a neighbour that hangs once, and for none that has gone.
func TestClaimThatNobodyHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{handoff: &succession{}, neighbours: newNeighbours(), logger: slog.New(slog.DiscardHandler)}
		assert.False(t, d.claim(), "there is no successor")
		d.neighbours.ask(true)
		began := time.Now()
		assert.True(t, d.claim())
		assert.Equal(t, claimBound, time.Since(began))
		assert.True(t, d.claim())
		assert.Equal(t, claimBound, time.Since(began))

		d.neighbours = newNeighbours()
		d.neighbours.ask(true)
		claimed := make(chan bool)
		go func() { claimed <- d.claim() }()
		synctest.Wait()
		d.neighbours.ask(false)
		assert.True(t, <-claimed)
		assert.Equal(t, claimBound, time.Since(began))
	})
}
