package workers

import (
	"slices"

	"codex-proxy/probes"
	"codex-proxy/workers/dispatch"
)

// Lease leases the worker, with the consent of other processes.
func (w *Worker) Lease(a dispatch.Ask) (*dispatch.Lease, error) {
	s, err := w.acquire(a)
	if err == nil {
		err = s.claim()
	}
	if err != nil {
		return nil, err
	}
	lease := dispatch.NewLease(w.name, s.conn, s)
	lease.Codex = s.codex
	return lease, nil
}

// acquire checks and acquires under one lock, so the limit holds.
func (w *Worker) acquire(a dispatch.Ask) (*slot, error) {
	lookBeside(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.state.vacancy(a, codexOf(w), w.settings.MaxInflight); err != nil {
		return nil, err
	}
	w.state.acquire(a.Decoding)
	return &slot{worker: w, conn: w.state.conn, codex: codexOf(w), decoding: a.Decoding}, nil
}

// Vacancy is an error if the worker has no place for the request.
func (w *Worker) Vacancy(a dispatch.Ask) error {
	lookBeside(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.vacancy(a, codexOf(w), w.settings.MaxInflight)
}

// codexOf is the run of a codex that serves several accounts, as systemd reports it. The worker is locked.
func codexOf(w *Worker) dispatch.Codex {
	if len(w.beside) == 0 || w.state.unit.InvocationID == "" {
		return dispatch.Codex{}
	}
	return dispatch.Codex{Invocation: w.state.unit.InvocationID, Account: w.name}
}

// Slots is how many turns may be in flight while the worker is ready; 0 while it is not.
func (w *Worker) Slots() int {
	if s, _ := w.view(); s.reason() == probes.Ready {
		return max(1, w.settings.MaxInflight/(1+len(w.beside)))
	}
	return 0
}

// vacancy is an error if the worker has no place for the request.
func (s *state) vacancy(a dispatch.Ask, codex dispatch.Codex, maxInflight int) error {
	switch {
	case s.reason() != probes.Ready, s.conn.Err() != nil: // a lost turn may know it before the session does
		return s.absence(a.Model)
	case !offers(s.offered, a.Model):
		return dispatch.ErrNoModel
	case slices.Contains(a.Avoid, s.conn), a.LostOn(codex):
		return dispatch.ErrAway
	}
	return s.full(a.Decoding, maxInflight)
}

// absence is the effect of a worker that is not ready on a request for the model. A
// worker that was never connected may have any model once it starts, also if
// systemd is just about to try again.
func (s *state) absence(model string) error {
	switch {
	case !probes.Recoverable(s.facts()):
		return dispatch.ErrGivenUp
	case s.offered == nil, offers(s.offered, model):
		return dispatch.ErrAway
	default:
		return dispatch.ErrNotReady
	}
}
