package workers

// Load is what turns take up of a worker.
type Load struct {
	Turns int `json:"turns,omitempty"` // in flight
}

// Plus is both together.
func (l Load) Plus(o Load) Load { return Load{Turns: l.Turns + o.Turns} }

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

// Elsewhere takes over what other processes have in flight on each worker: it
// counts against MaxInflight as our own does. It waits for no Settings.Claim;
// Wake, which may, is to follow.
func (p *Pool) Elsewhere(loads map[string]Load) {
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
func (s *state) load() Load  { return Load{Turns: s.inflight} }
func (s *state) total() Load { return s.load().Plus(s.elsewhere) }

// full reports whether this load is all that the worker may have.
func (s *Settings) full(l Load) bool { return l.Turns >= s.MaxInflight }

// confirm makes a place that was just taken known to the other processes, and gives
// it back if by then they had no room for it.
func (w *Worker) confirm() error {
	if w.settings.Claim == nil || !w.settings.Claim() {
		return nil
	}
	if w.keepPlace() {
		return nil
	}
	w.settings.OnChange() // others count it still
	return ErrBusy
}

func (w *Worker) keepPlace() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.inflight--
	kept := !w.settings.full(w.state.total())
	if kept {
		w.state.inflight++
	}
	return kept
}
