package workspace

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }

func TestLease(t *testing.T) {
	for name, c := range map[string]struct {
		pool  Pool
		slots int
		want  int
		err   error
	}{
		"the first slot":                     {nil, 2, 1, nil},
		"the same repository before a new":   {Pool{{Number: 1, Repository: "a"}}, 2, 1, nil},
		"the one of it that was used last":   {Pool{{1, "a", "", at(1), 0}, {2, "a", "", at(3), 0}, {3, "a", "", at(2), 0}}, 3, 2, nil},
		"a new one before another's":         {Pool{{1, "b", "", at(1), 0}}, 2, 2, nil},
		"the lowest number that is not used": {Pool{{1, "b", "s", at(1), 0}, {3, "b", "", at(1), 0}}, 3, 2, nil},
		"the oldest of another repository":   {Pool{{1, "b", "", at(2), 0}, {2, "c", "", at(1), 0}}, 2, 2, nil},
		"never a leased one":                 {Pool{{1, "a", "s", at(-999), 0}, {2, "b", "", at(1), 0}}, 2, 2, nil},
		"all are leased":                     {Pool{{1, "a", "s", at(1), 0}, {2, "b", "t", at(1), 0}}, 2, 0, ErrPoolFull},
		"more slots than a lowered bound":    {Pool{{1, "b", "s", at(1), 0}, {2, "b", "", at(1), 0}}, 1, 0, ErrPoolFull},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.pool.Lease("a", Bounds{Slots: c.slots})
			assert.ErrorIs(t, err, c.err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestEvict(t *testing.T) {
	pool := Pool{{1, "a", "", at(3), 10}, {2, "b", "", at(1), 20}, {3, "c", "s", at(0), 99}, {4, "d", "", at(2), 30}}
	for name, c := range map[string]struct {
		bounds Bounds
		want   []int
	}{
		"within both":             {Bounds{4, 60}, nil},
		"one too many":            {Bounds{3, 60}, []int{2}},
		"a byte too much":         {Bounds{4, 59}, []int{2}},
		"bytes of two":            {Bounds{4, 39}, []int{2, 4}},
		"never the leased one":    {Bounds{0, 0}, []int{2, 4, 1}},
		"both bounds count alone": {Bounds{2, 60}, []int{2, 4}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, pool.Evict(c.bounds)) })
	}
}

// TestPoolProperties has every order of leases, ends and evictions keep: no slot has two sessions, a session
// that runs keeps its slot, and the pool is never larger than its bound.
func TestPoolProperties(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		b := Bounds{Slots: 1 + r.IntN(5), Bytes: int64(r.IntN(100))}
		var pool Pool
		running := map[string]int{}
		for step := range 100 {
			now := at(step)
			switch r.IntN(3) {
			case 0:
				repository, session := strconv.Itoa(r.IntN(3)), strconv.Itoa(step)
				n, err := pool.Lease(repository, b)
				if err != nil {
					assert.Empty(t, pool.free(), "a lease is refused only if none is free")
					continue
				}
				i := slices.IndexFunc(pool, func(s Slot) bool { return s.Number == n })
				if i < 0 {
					i, pool = len(pool), append(pool, Slot{Number: n})
				}
				assert.Empty(t, pool[i].Session, "a leased slot is leased again")
				pool[i] = Slot{n, repository, session, now, 0}
				running[session] = n
			case 1: // some session ends
				for session, n := range running {
					i := slices.IndexFunc(pool, func(s Slot) bool { return s.Number == n })
					pool[i].Session, pool[i].Heartbeat, pool[i].Bytes = "", now, int64(r.IntN(60))
					delete(running, session)
					break
				}
			case 2:
				gone := pool.Evict(b)
				pool = slices.DeleteFunc(pool, func(s Slot) bool { return slices.Contains(gone, s.Number) })
				var size int64
				for _, s := range pool.free() {
					size += s.Bytes
				}
				assert.LessOrEqual(t, size, b.Bytes)
			}
			assert.LessOrEqual(t, len(pool), b.Slots)
			for session, n := range running {
				i := slices.IndexFunc(pool, func(s Slot) bool { return s.Number == n })
				if assert.GreaterOrEqual(t, i, 0, "the slot of a running session is gone") {
					assert.Equal(t, session, pool[i].Session, "a running session is robbed")
				}
			}
		}
	}
}
