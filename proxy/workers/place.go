package workers

import (
	"sync"

	"codex-proxy/probes"
)

// decodingRoom is how many bytes of images requests may have in decoding on one
// worker at the same time, as codex counts them (openai.MaxDecoding). A request
// that has more is alone with its images. Codex decodes the images of each request on
// a thread of its own. With as many requests as processors it answers nothing, not even
// the probe of its watchdog, until one is done. 512 MiB take it 2 to 3 s of CPU time at
// most, and the watchdog waits for 10.
const decodingRoom = 512 << 20

// decodes reports whether there is room to decode so many bytes more. A request
// that is alone always has room: none waits for more than there ever is.
func (l Load) decodes(bytes int64) bool {
	return bytes == 0 || l.Decoding == 0 || l.Decoding+bytes <= decodingRoom
}

// turns are those in flight, and those that codex has yet to end.
func (s *state) turns() int { return s.inflight + s.lingering }

// place is what a lease takes up of its worker. All of it is touched under the
// worker's lock.
type place struct {
	worker   *Worker
	decoding int64 // bytes of images
	held     int   // by what codex does
	released bool
}

// hold is Lease.Hold.
func (p *place) hold() (let func()) {
	p.worker.mu.Lock()
	defer p.worker.mu.Unlock()
	p.held++
	return sync.OnceFunc(p.let)
}

// let is the end of a hold. Mostly the request goes on, and nothing becomes free.
func (p *place) let() {
	p.free(func(s *state) (freed bool) {
		if p.held--; p.held > 0 {
			return false
		}
		freed = p.giveDecoding(s)
		if p.released {
			s.lingering--
			freed = true
		}
		return freed
	})
}

// decoded is Lease.Decoded.
func (p *place) decoded() { p.free(p.giveDecoding) }

// release is Lease.Release, called once.
func (p *place) release() {
	p.free(func(s *state) bool {
		s.inflight--
		if p.released = true; p.held > 0 {
			s.lingering++
		} else {
			p.giveDecoding(s)
		}
		return true
	})
}

// giveDecoding reports whether there was something to give back.
func (p *place) giveDecoding(s *state) bool {
	given := p.decoding > 0
	s.decoding -= p.decoding
	p.decoding = 0
	return given
}

// free wakes the requests that wait, if something has become free. The probes publish
// nothing about a ready worker that depends on that.
func (p *place) free(change func(*state) (freed bool)) {
	w := p.worker
	w.mu.Lock()
	freed, ready := change(&w.state), w.state.reason() == probes.Ready
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
