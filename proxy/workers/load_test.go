package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/workers"
)

func elsewhere(turns int) map[string]workers.Load {
	return map[string]workers.Load{"a": {Turns: turns}}
}

// The turns of other processes count, and who waits for one of their places gets it.
func TestPlacesElsewhere(t *testing.T) {
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 2 }, named{"a", fake(t, models("x")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	r.pool.SetPeerLoads(elsewhere(1))
	first := r.admittedTo(t, r.admit(t, workers.Ask{Model: "x"}))
	waiting := r.admit(t, workers.Ask{Model: "x"})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Equal(t, elsewhere(1), r.pool.Loads(), "our own")
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.admittedTo(t, waiting).Release()
	assert.Zero(t, r.pool.Waiting())
	first.Release()
	assert.Empty(t, r.pool.Loads())
}

// A place that another process has taken meanwhile is given back, and not waited for
// any longer than that one has it.
func TestClaim(t *testing.T) {
	var r *rig
	claims := 0
	r = newRig(t, func(s *workers.Settings) {
		s.MaxInflight = 1
		s.Claim = func() bool {
			claims++
			assert.Equal(t, elsewhere(1), r.pool.Loads(), "the place counts before the others hear of it")
			if claims == 1 {
				r.pool.SetPeerLoads(elsewhere(1))
			}
			return true
		}
	}, named{"a", fake(t, models("x")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	waiting := r.admit(t, workers.Ask{Model: "x"})
	assert.Equal(t, 1, r.pool.Waiting())
	assert.Empty(t, r.pool.Loads())
	r.pool.SetPeerLoads(nil)
	r.pool.Wake()
	r.admittedTo(t, waiting).Release()
	assert.Equal(t, 2, claims)
}
