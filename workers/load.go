package workers

import (
	"time"

	"codex-proxy/workers/dispatch"
)

// Load is the part of a worker's capacity that turns use.
type Load struct {
	Turns    int   `json:"turns,omitempty"`    // in flight, and those that codex has yet to end
	Decoding int64 `json:"decoding,omitempty"` // bytes of images that codex may be decoding
}

// Plus is the sum of both.
func (l Load) Plus(o Load) Load { return Load{l.Turns + o.Turns, l.Decoding + o.Decoding} }

// decodingRoom is how many bytes of images the requests may have in decoding on one
// worker at the same time, as codex counts them (openai.MaxDecoding). A request
// with more is alone with its images. Codex decodes the images of each request on a
// thread of its own. With as many requests as processors it answers nothing, not
// even the probe of its watchdog, until one is done. 512 MiB take it 2 to 3 s of
// CPU time at most, and the watchdog waits for 10.
const decodingRoom = 512 << 20

// decodes reports whether there is room to decode that many bytes more. A request
// that is alone always has room, however large it is.
func (l Load) decodes(bytes int64) bool {
	return bytes == 0 || l.Decoding == 0 || l.Decoding+bytes <= decodingRoom
}

// slots is the part of a worker's state that turns change.
type slots struct {
	inflight  int
	lingering int       // turns without a request, which codex has yet to end
	decoding  int64     // bytes of images that codex may be decoding
	peers     Load      // of the other processes of the service
	beside    Load      // of the other accounts of the codex, at the last look
	usedAt    time.Time // when the last turn ended
}

// turns are those in flight, and those that codex has yet to end.
func (s *slots) turns() int { return s.inflight + s.lingering }

// load counts the turns of this process, total the turns of all processes.
func (s *slots) load() Load  { return Load{s.turns(), s.decoding} }
func (s *slots) total() Load { return s.load().Plus(s.peers) }

// full is an error if there is no slot for a turn with that many bytes of images.
func (s *slots) full(decoding int64, maxInflight int) error {
	switch l := s.total().Plus(s.beside); {
	case l.Turns >= maxInflight:
		return dispatch.ErrBusy
	case !l.decodes(decoding):
		return dispatch.ErrDecoding
	}
	return nil
}

// acquire and release are for a turn with that many bytes of images.
func (s *slots) acquire(decoding int64) { s.inflight, s.decoding = s.inflight+1, s.decoding+decoding }
func (s *slots) release(decoding int64) { s.inflight, s.decoding = s.inflight-1, s.decoding-decoding }

// Load is how many turns are in flight, in all processes.
func (w *Worker) Load() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.total().Turns
}

// Loads are the loads of this process, of each worker with a turn in flight.
func (r roster) Loads() map[string]Load {
	loads := map[string]Load{}
	for _, w := range r {
		w.mu.Lock()
		own := w.state.load()
		w.mu.Unlock()
		if own != (Load{}) {
			loads[w.name] = own
		}
	}
	return loads
}

// SetPeerLoads takes over the load of other processes on each worker: it
// counts against MaxInflight like the load of this process. It does not wait for
// Settings.Claim. The caller calls Wake next, which may wait for it.
func (r roster) SetPeerLoads(loads map[string]Load) {
	for _, w := range r {
		w.mu.Lock()
		w.state.peers = loads[w.name]
		w.mu.Unlock()
	}
}

// lookBeside takes over the load of the other accounts of the codex. All slots are acquired under the lock of the
// queue, so it does not grow before the slot is acquired.
func lookBeside(w *Worker) {
	if len(w.beside) == 0 {
		return
	}
	var load Load
	for _, other := range w.beside {
		other.mu.Lock()
		load = load.Plus(other.state.total())
		other.mu.Unlock()
	}
	w.mu.Lock()
	w.state.beside = load
	w.mu.Unlock()
}
