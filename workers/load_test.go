package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

func loadOfA(turns int) map[string]workers.Load {
	return map[string]workers.Load{"a": {Turns: turns}}
}

// The turns of other processes count, and a request that waits gets a slot that they
// release.
func TestPeerLoads(t *testing.T) {
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 2 }, named{"a", fake(t, models("x")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.pool.SetPeerLoads(loadOfA(1))
	first := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "x"}))
	waiting := r.ask(t, dispatch.Ask{Model: "x"})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Equal(t, loadOfA(1), r.pool.Loads(), "those of this process")
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.awaitLease(t, waiting).Release()
	assert.Zero(t, r.pool.Waiting())
	first.Release()
	assert.Empty(t, r.pool.Loads())
}

// A slot that another process has acquired meanwhile is released, and is free again
// when the other process releases it.
func TestClaim(t *testing.T) {
	var r *rig
	claims := 0
	r = newRig(t, func(s *workers.Settings) {
		s.MaxInflight = 1
		s.Claim = func() bool {
			claims++
			assert.Equal(t, loadOfA(1), r.pool.Loads(), "the slot counts before the others know of it")
			if claims == 1 {
				r.pool.SetPeerLoads(loadOfA(1))
			}
			return true
		}
	}, named{"a", fake(t, models("x")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	waiting := r.ask(t, dispatch.Ask{Model: "x"})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Empty(t, r.pool.Loads())
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.awaitLease(t, waiting).Release()
	assert.Equal(t, 2, claims)
}
