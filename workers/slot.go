package workers

import (
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
	"codex-proxy/workers/dispatch"
)

// slot is the part of its worker's capacity that a lease uses. All of it is touched under the
// worker's lock.
type slot struct {
	worker   *Worker
	conn     *appserver.Conn
	codex    dispatch.Codex
	decoding int64 // bytes of images
	holds    int   // calls of hold without a call of release yet
	released bool
}

// claim makes the slot, which was just acquired, known to the other processes, and
// releases it if they have left no room for it meanwhile.
func (s *slot) claim() error {
	w := s.worker
	if w.settings.Claim == nil || !w.settings.Claim() {
		return nil
	}
	err := s.acquireAgain()
	if err != nil {
		w.settings.OnChange() // the others still count it
	}
	return err
}

func (s *slot) acquireAgain() error {
	w := s.worker
	lookBeside(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.release(s.decoding)
	if err := w.state.full(s.decoding, w.settings.MaxInflight); err != nil {
		return err
	}
	w.state.acquire(s.decoding)
	return nil
}

// Bind implements dispatch.Slot.
func (s *slot) Bind(turn *appserver.TurnRequest, request string) {
	turn.Ended = s.hold()
	turn.Starting = func(thread string) { s.worker.annotator.Send(thread, request) }
}

// hold keeps the slot, also after its release, until end is called. end may be called
// from any goroutine, and does not wait.
func (s *slot) hold() (end func()) {
	s.worker.mu.Lock()
	defer s.worker.mu.Unlock()
	s.holds++
	return sync.OnceFunc(s.endHold)
}

// endHold ends a hold. Mostly the request goes on, and nothing becomes free: its next turn on this
// worker may have images to decode, too.
func (s *slot) endHold() {
	s.free(func(of *slots) (freed bool) {
		if s.holds--; s.holds > 0 || !s.released {
			return false
		}
		of.lingering--
		s.releaseDecoding(of)
		return true
	})
}

// Decoded implements dispatch.Slot.
func (s *slot) Decoded() { s.free(s.releaseDecoding) }

// Release implements dispatch.Slot.
func (s *slot) Release() {
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

// Suspect implements dispatch.Slot.
func (s *slot) Suspect() {
	select {
	case s.worker.connector.suspects <- s.conn:
	default: // an examination is due already
	}
}
