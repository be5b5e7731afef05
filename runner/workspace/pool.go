package workspace

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// ErrPoolFull reports that sessions lease all slots that the pool may have: wait until one ends.
var ErrPoolFull = errors.New("all workspaces are in use")

// Slot is a place for a checkout.
type Slot struct {
	Number     int       // from 1
	Repository string    // key of the repository that was last checked out there; "" if the slot is empty
	Session    string    // that leases it; "" if it is free
	Heartbeat  time.Time // the last sign of the lease; of a free slot, its end
	Bytes      int64     // on the disk, when the last lease ended
}

// Pool is a set of slots with distinct numbers. Its methods decide and change nothing.
type Pool []Slot

// Bounds of a pool.
type Bounds struct {
	Slots int   // leased and free
	Bytes int64 // of all free slots; a session that runs has its own limit
}

// Lease returns the number of the slot that a new session gets: the free one of the same repository that was used last,
// else a new one, else the free one that was used least recently. Its error is ErrPoolFull.
func (p Pool) Lease(repository string, b Bounds) (int, error) {
	free := p.free()
	for _, s := range slices.Backward(free) {
		if s.Repository == repository {
			return s.Number, nil
		}
	}
	if len(p) < b.Slots {
		return p.unused(), nil
	}
	if len(free) > 0 && len(p) <= b.Slots {
		return free[0].Number, nil
	}
	return 0, ErrPoolFull
}

// Evict returns the slots to remove so that the pool is within its bounds, or as near as its leases allow. Free slots
// go, the least recently used first.
func (p Pool) Evict(b Bounds) []int {
	free := p.free()
	var size int64
	for _, s := range free {
		size += s.Bytes
	}
	var gone []int
	for _, s := range free {
		if len(p)-len(gone) <= b.Slots && size <= b.Bytes {
			break
		}
		gone, size = append(gone, s.Number), size-s.Bytes
	}
	return gone
}

// free returns the slots without a lease, the least recently used first.
func (p Pool) free() []Slot {
	free := slices.DeleteFunc(slices.Clone(p), func(s Slot) bool { return s.Session != "" })
	slices.SortFunc(free, func(a, b Slot) int {
		return cmp.Or(a.Heartbeat.Compare(b.Heartbeat), cmp.Compare(a.Number, b.Number))
	})
	return free
}

// unused returns the lowest number that no slot has.
func (p Pool) unused() int {
	for n := 1; ; n++ {
		if !slices.ContainsFunc(p, func(s Slot) bool { return s.Number == n }) {
			return n
		}
	}
}
