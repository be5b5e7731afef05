package workers_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/dispatch"
)

func models(ids ...string) *appservertest.Server {
	srv := &appservertest.Server{}
	for _, id := range ids {
		hidden := id[0] == '.'
		srv.Models = append(srv.Models, appservertest.Model{ID: id, Hidden: hidden})
	}
	return srv
}

// ready is a running pool of ready workers.
func ready(t *testing.T, servers map[string]*appservertest.Server) *rig {
	t.Helper()
	names := make([]named, 0, len(servers))
	for name, srv := range servers {
		names = append(names, named{name, fake(t, srv).path})
	}
	slices.SortFunc(names, func(a, b named) int { return int(a.name[0]) - int(b.name[0]) })
	r := newRig(t, nil, names...)
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	return r
}

func TestPickErrorsByPrecedence(t *testing.T) {
	r := newRig(t, nil, named{"a", fake(t, models("m")).path}, named{"b", "/nowhere"})
	pick := func(model string) error {
		_, err := r.pool.Pick(model)
		return err
	}
	assert.ErrorIs(t, pick("m"), dispatch.ErrNotReady)
	r.run(t)
	r.report(running("a", "1", 0), unit("b", "inactive", "dead", "", 0))
	r.await(t, "a ready", aReady)
	assert.ErrorIs(t, pick("other"), dispatch.ErrNoModel, "a ready worker without the model decides")
	for range 4 {
		lease, err := r.pool.Pick("m")
		require.NoError(t, err)
		defer lease.Release()
	}
	assert.ErrorIs(t, pick("m"), dispatch.ErrBusy)
	assert.ErrorIs(t, pick("other"), dispatch.ErrNoModel)
	r.pool.Drain()
	assert.ErrorIs(t, pick("m"), dispatch.ErrDraining)
	assert.ErrorIs(t, pick("other"), dispatch.ErrDraining)
	assert.True(t, r.pool.Snapshot().Draining)
}

func TestBusyIsMoreTellingThanNoModel(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m"), "b": models("n")})
	for range 4 {
		lease, err := r.pool.Pick("m")
		require.NoError(t, err)
		defer lease.Release()
	}
	_, err := r.pool.Pick("m")
	assert.ErrorIs(t, err, dispatch.ErrBusy)
}

func TestInflightLimitHoldsUnderConcurrency(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m"), "b": models("m")})
	const limit = 8 // two workers, four each
	for range 20 {
		leases := make(chan *dispatch.Lease, 64)
		var g sync.WaitGroup
		for range cap(leases) {
			g.Go(func() {
				lease, err := r.pool.Pick("m")
				if err != nil {
					assert.ErrorIs(t, err, dispatch.ErrBusy)
					return
				}
				leases <- lease
			})
		}
		g.Wait()
		close(leases)
		require.Len(t, leases, limit)
		assert.Equal(t, limit, r.pool.Inflight())
		for lease := range leases {
			g.Go(lease.Release)
			g.Go(lease.Release) // idempotent
		}
		g.Wait()
		require.Zero(t, r.pool.Inflight())
	}
}

func TestPickPrefersTheLeastLoaded(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m"), "b": models("m")})
	var order []string
	var leases []*dispatch.Lease
	pick := func() {
		lease, err := r.pool.Pick("m")
		require.NoError(t, err)
		order, leases = append(order, lease.Worker), append(leases, lease)
	}
	for range 4 {
		pick()
	}
	assert.Equal(t, []string{"a", "b", "a", "b"}, order)
	leases[1].Release()
	leases[3].Release()
	pick()
	pick()
	assert.Equal(t, []string{"b", "b"}, order[4:])
	for _, w := range r.pool.Snapshot().Workers {
		assert.Equal(t, 2, w.Inflight)
	}
	for _, lease := range leases {
		lease.Release()
	}
	assert.Zero(t, r.pool.Inflight())
}

func TestModelsAreMergedAndHiddenOnesRun(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m2", "m1", ".hidden"), "b": models("m3", "m2")})
	assert.Equal(t, []string{"m2", "m1", "m3"}, r.pool.Models())
	for model, worker := range map[string]string{"m3": "b", "m1": "a", ".hidden": "a"} {
		lease, err := r.pool.Pick(model)
		require.NoError(t, err, model)
		assert.Equal(t, worker, lease.Worker)
		lease.Release()
	}
	_, err := r.pool.Pick("m4")
	assert.ErrorIs(t, err, dispatch.ErrNoModel)
}
