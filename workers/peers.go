package workers

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

// claim makes a slot that was just acquired known to the other processes, and
// releases it if they have left no room for it meanwhile.
func (w *Worker) claim(s *slot) error {
	if w.settings.Claim == nil || !w.settings.Claim() {
		return nil
	}
	err := w.acquireAgain(s)
	if err != nil {
		w.settings.OnChange() // the others still count it
	}
	return err
}

func (w *Worker) acquireAgain(s *slot) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.release(s.decoding)
	if err := w.state.full(s.decoding, w.settings.MaxInflight); err != nil {
		return err
	}
	w.state.acquire(s.decoding)
	return nil
}
