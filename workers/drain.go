package workers

// drains are the reasons why a worker that could run turns gets no new ones. An
// operator's drain holds until it is undone, across restarts of the worker. The
// drain of a stop holds for the invocation that is being stopped, and so ends when
// systemd starts the worker again; so does that of a renewal.
type drains struct {
	operator bool
	stopped  string // InvocationID of the invocation that its ExecStop= has drained
	renewed  string // InvocationID of the invocation that another one is to replace, see Renew
}

// draining reports whether either drain holds now.
func (s *state) draining() bool {
	return s.drains.operator || s.drains.stopped != "" && s.drains.stopped == s.unit.InvocationID ||
		s.drains.renews(s.unit.InvocationID)
}

// renews reports whether the invocation is to be replaced by another one.
func (d *drains) renews(invocation string) bool { return d.renewed != "" && d.renewed == invocation }

// DrainWorker forbids new turns on one worker until UndrainWorker. Turns in
// flight go on. The error wraps ErrUnknown.
func (r roster) DrainWorker(name string) error {
	return setDrains(r, name, "worker drained", func(d *drains) { d.operator = true })
}

// UndrainWorker undoes DrainWorker and DrainForStop.
func (r roster) UndrainWorker(name string) error {
	return setDrains(r, name, "worker undrained", func(d *drains) { *d = drains{} })
}

// DrainForStop forbids new turns on one worker during the invocation, which is
// systemd's word for one run of a unit.
func (r roster) DrainForStop(name, invocation string) error {
	return setDrains(r, name, "worker drained for its stop", func(d *drains) { d.stopped = invocation })
}

// Drained reports whether an operator has drained the worker.
func (r roster) Drained(name string) bool {
	w, err := r.find(name)
	if err != nil {
		return false
	}
	s, _ := w.view()
	return s.drains.operator
}

// setDrains changes the drains of all accounts of the worker's codex.
func setDrains(r roster, name, message string, change func(*drains)) error {
	all, err := alike(r, name)
	for _, w := range all {
		inflight, changed := 0, false
		w.update(func(s *state) {
			before := s.drains
			change(&s.drains)
			inflight, changed = s.turns(), s.drains != before
		})
		if changed {
			w.logger.Info(message, "inflight", inflight)
		}
	}
	return err
}
