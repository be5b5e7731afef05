package workers

// Load is what turns take up of a worker.
type Load struct {
	Turns    int   `json:"turns,omitempty"`    // in flight, and those that codex has yet to end
	Decoding int64 `json:"decoding,omitempty"` // bytes of images that codex may be decoding
}

// Plus is both together.
func (l Load) Plus(o Load) Load { return Load{l.Turns + o.Turns, l.Decoding + o.Decoding} }

// Loads are what this process has in flight on each worker that has any.
func (p *Pool) Loads() map[string]Load {
	loads := map[string]Load{}
	for _, w := range p.workers {
		if l := w.own(); l != (Load{}) {
			loads[w.name] = l
		}
	}
	return loads
}

// Waiting is how many requests wait for a place. It does not wait for the queue,
// where one may be about to get one by Settings.Claim.
func (p *Pool) Waiting() int { return int(p.queue.waiting.Load()) }

// SetPeerLoads takes over what other processes have in flight on each worker: it
// counts against MaxInflight as our own does. It waits for no Settings.Claim;
// Wake, which may, is to follow.
func (p *Pool) SetPeerLoads(loads map[string]Load) {
	for _, w := range p.workers {
		w.mu.Lock()
		w.state.elsewhere = loads[w.name]
		w.mu.Unlock()
	}
}

// Wake gives places to requests that wait, if there are any by now.
func (p *Pool) Wake() { p.queue.wake() }

// own is what this process has in flight on the worker.
func (w *Worker) own() Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.load()
}

// load is what this process has in flight, total that of all processes.
func (s *state) load() Load  { return Load{s.turns(), s.decoding} }
func (s *state) total() Load { return s.load().Plus(s.elsewhere) }

// room is an error if a turn with so many bytes of images finds none. It is called
// under the lock.
func (w *Worker) room(decoding int64) error {
	switch l := w.state.total(); {
	case l.Turns >= w.settings.MaxInflight:
		return ErrBusy
	case !l.decodes(decoding):
		return ErrDecoding
	}
	return nil
}

// take and give are of a turn in flight with so many bytes of images.
func (s *state) take(decoding int64) { s.inflight, s.decoding = s.inflight+1, s.decoding+decoding }
func (s *state) give(decoding int64) { s.inflight, s.decoding = s.inflight-1, s.decoding-decoding }

// confirm makes a place that was just taken known to the other processes, and gives
// it back if by then they had no room for it.
func (w *Worker) confirm(p *place) error {
	if w.settings.Claim == nil || !w.settings.Claim() {
		return nil
	}
	err := w.keepPlace(p)
	if err != nil {
		w.settings.OnChange() // others count it still
	}
	return err
}

func (w *Worker) keepPlace(p *place) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.give(p.decoding)
	if err := w.room(p.decoding); err != nil {
		return err
	}
	w.state.take(p.decoding)
	return nil
}
