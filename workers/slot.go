package workers

import (
	"sync"
	"time"

	"codex-proxy/probes"
)

// slot is the part of its worker's capacity that a lease uses. All of it is touched under the
// worker's lock.
type slot struct {
	worker   *Worker
	decoding int64 // bytes of images
	holds    int   // calls of hold without a call of release yet
	released bool
}

// hold is Lease.Hold.
func (s *slot) hold() (release func()) {
	s.worker.mu.Lock()
	defer s.worker.mu.Unlock()
	s.holds++
	return sync.OnceFunc(s.endHold)
}

// endHold ends a hold. Mostly the request goes on, and nothing becomes free.
func (s *slot) endHold() {
	s.free(func(of *slots) (freed bool) {
		if s.holds--; s.holds > 0 {
			return false
		}
		freed = s.releaseDecoding(of)
		if s.released {
			of.lingering--
			freed = true
		}
		return freed
	})
}

// decoded is Lease.Decoded.
func (s *slot) decoded() { s.free(s.releaseDecoding) }

// release is Lease.Release, called once.
func (s *slot) release() {
	s.free(func(of *slots) bool {
		of.inflight--
		of.usedAt = time.Now()
		if s.released = true; s.holds > 0 {
			of.lingering++
		} else {
			s.releaseDecoding(of)
		}
		return true
	})
}

// releaseDecoding reports whether there was room for images to release.
func (s *slot) releaseDecoding(of *slots) bool {
	released := s.decoding > 0
	of.decoding -= s.decoding
	s.decoding = 0
	return released
}

// free wakes the requests that wait, if something has become free. The probes publish
// nothing about a ready worker that depends on it.
func (s *slot) free(change func(*slots) (freed bool)) {
	w := s.worker
	w.mu.Lock()
	freed, ready := change(&w.state.slots), w.state.reason() == probes.Ready
	w.mu.Unlock()
	if !freed {
		return
	}
	w.change(func(*state) {}) // for those that watch the worker, or wait for it
	if ready && w.settings.OnTurnEnd != nil {
		w.settings.OnTurnEnd()
	} else {
		w.settings.OnChange()
	}
}
