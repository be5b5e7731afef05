package workers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/workers"
	"codex-proxy/units"
)

type admitted struct {
	lease *workers.Lease
	err   error
}

// admit asks for a place and returns once the request waits or is answered.
func (r *rig) admit(t *testing.T, a workers.Ask) <-chan admitted {
	t.Helper()
	before := r.pool.Snapshot().Queue.Depth
	ended, got := make(chan admitted, 1), make(chan struct{})
	go func() {
		lease, err := r.pool.Acquire(context.Background(), a)
		ended <- admitted{lease, err}
		close(got)
	}()
	limit := time.After(bound)
	for r.pool.Snapshot().Queue.Depth == before {
		select {
		case <-got:
			return ended
		case <-limit:
			require.FailNow(t, "neither waits nor answered")
		default:
		}
	}
	return ended
}

func (r *rig) admittedTo(t *testing.T, ended <-chan admitted) *workers.Lease {
	t.Helper()
	select {
	case got := <-ended:
		require.NoError(t, got.err)
		return got.lease
	case <-time.After(bound):
		require.FailNow(t, "not admitted")
		return nil
	}
}

func (r *rig) waits(t *testing.T, depth int) {
	t.Helper()
	queue := r.pool.Snapshot().Queue
	assert.Equal(t, depth, queue.Depth)
	assert.Equal(t, depth > 0, queue.OldestWaitMS > 0)
	assert.Equal(t, 64, queue.Limit)
}

func TestAdmitWaitsForAFreePlace(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 1 }, named{"a", a.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	first := r.admittedTo(t, r.admit(t, workers.Ask{Model: "m"}))
	second := r.admit(t, workers.Ask{Model: "m"})
	r.waits(t, 1)
	assert.Equal(t, 2, r.pool.Inflight(), "a service that stops has both to finish")
	first.Release()
	lease := r.admittedTo(t, second)
	assert.Equal(t, 1, r.pool.Inflight())
	third := r.admit(t, workers.Ask{Model: "m"})
	r.pool.Drain()
	assert.ErrorIs(t, (<-third).err, workers.ErrDraining)
	r.waits(t, 0)
	lease.Release()
	assert.Zero(t, r.pool.Inflight())
}

// A restart as systemd and the socket report it: whoever waits is served when
// the worker is back, not before.
func TestAdmitWaitsThroughARestart(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, nil, named{"a", a.path})
	first := r.admit(t, workers.Ask{Model: "m"})
	r.waits(t, 1)
	r.run(t)
	r.heard(running("a", "1", 0))
	lost := r.admittedTo(t, first)
	a.cut(t)
	<-lost.Conn.Done()
	again := r.admit(t, workers.Ask{Model: "m", Lost: lost, Avoid: []*appserver.Conn{lost.Conn}})
	r.await(t, "the lost turn still in flight", func(probes.Snapshot) bool { return r.pool.Inflight() == 1 })
	r.pool.Drain()
	assert.ErrorIs(t, (<-r.admit(t, workers.Ask{Model: "m"})).err, workers.ErrDraining)
	for _, u := range []units.State{
		unit("a", "failed", "failed-before-auto-restart", "1", 0), unit("a", "activating", "auto-restart", "1", 0),
		unit("a", "activating", "start", "2", 1),
	} {
		r.heard(u)
		r.waits(t, 1)
	}
	r.heard(running("a", "2", 1))
	lease := r.admittedTo(t, again)
	assert.NotSame(t, lost.Conn, lease.Conn)
	assert.Equal(t, 1, r.pool.Inflight())
	lease.Release()
	assert.Zero(t, r.pool.Inflight())
}

// Nobody waits for what only a person can mend; until systemd says so, everybody does.
func TestAdmitGivesUpWithSystemd(t *testing.T) {
	for name, final := range map[string]units.State{
		"start limit": unit("a", "failed", "failed", "1", 5),
		"failed":      unit("a", "failed", "failed", "1", 0),
		"stopped":     unit("a", "inactive", "dead", "1", 0),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, named{"a", "/nowhere"}, named{"b", "/nowhere"})
			other := final
			other.Unit = units.Worker("b")
			r.heard(unit("a", "activating", "auto-restart", "1", 0), other)
			waiting := r.admit(t, workers.Ask{Model: "m"})
			r.waits(t, 1)
			r.heard(final)
			assert.ErrorIs(t, (<-waiting).err, workers.ErrNotReady)
			assert.ErrorIs(t, (<-r.admit(t, workers.Ask{Model: "m"})).err, workers.ErrNotReady)
		})
	}
	r := newRig(t, nil)
	assert.ErrorIs(t, (<-r.admit(t, workers.Ask{Model: "m"})).err, workers.ErrNotReady, "no worker at all")
}

// A model that nobody has is unknown; one whose worker is away is waited for.
func TestAdmitKnowsWhoHasWhichModel(t *testing.T) {
	a, b := fake(t, models("m1")), fake(t, models("m2"))
	r := newRig(t, nil, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.heard(running("a", "1", 0))
	r.await(t, "a ready", aReady)
	first := r.admit(t, workers.Ask{Model: "m2"})
	r.waits(t, 1) // b has not been heard of yet
	r.heard(running("b", "1", 0))
	r.admittedTo(t, first).Release()

	b.cut(t)
	r.awaitLoss(t)
	r.heard(unit("b", "activating", "auto-restart", "1", 0))
	second := r.admit(t, workers.Ask{Model: "m2"})
	r.waits(t, 1)
	assert.ErrorIs(t, (<-r.admit(t, workers.Ask{Model: "m3"})).err, workers.ErrNoModel)
	r.heard(running("b", "2", 1))
	r.admittedTo(t, second).Release()

	b.cut(t)
	r.awaitLoss(t)
	third := r.admit(t, workers.Ask{Model: "m2"})
	r.heard(unit("b", "inactive", "dead", "2", 0))
	assert.ErrorIs(t, (<-third).err, workers.ErrNoModel, "an operator has stopped the only worker that had it")
	assert.Equal(t, probes.Ready, r.pool.Snapshot().Workers[0].Reason)
}

// A worker that fails its first starts may have any model. Only while there is one
// does a model that nobody has wait, for no longer than the queue allows.
func TestAdmitWaitsForWhoWasNeverThere(t *testing.T) {
	a, b := fake(t, models("m1")), fake(t, models("m2"))
	r := newRig(t, nil, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.heard(running("a", "1", 0))
	r.await(t, "a ready", aReady)
	waiting := r.admit(t, workers.Ask{Model: "m2"})
	nobodys := r.admit(t, workers.Ask{Model: "m3"})
	for _, u := range []units.State{
		unit("b", "activating", "start", "1", 0), unit("b", "failed", "failed-before-auto-restart", "1", 0),
		unit("b", "activating", "auto-restart", "1", 0), unit("b", "activating", "start", "2", 1),
	} {
		r.heard(u)
		r.waits(t, 2)
	}
	r.heard(running("b", "2", 1))
	r.admittedTo(t, waiting).Release()
	assert.ErrorIs(t, (<-nobodys).err, workers.ErrNoModel)
	assert.ErrorIs(t, (<-r.admit(t, workers.Ask{Model: "m3"})).err, workers.ErrNoModel)
}

func TestNextPlace(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, nil, named{"a", a.path})
	assert.Zero(t, r.pool.EstimatedWait(), "nothing is known of a pool that is not ready")
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.admittedTo(t, r.admit(t, workers.Ask{Model: "m"}))
	lease.Release()
	assert.Positive(t, r.pool.EstimatedWait())
}
