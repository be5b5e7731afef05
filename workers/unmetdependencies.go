package workers

import (
	"slices"

	"codex-proxy/probes"
)

// Unmet are the dependencies that a worker waits for: they are not ready.
type Unmet struct {
	Names []string
	// Reason is the reason of one of them, a final one if there is one; empty: the worker waits for none.
	Reason probes.DependencyReason
	// Bound: the worker's unit does not run without them (BindsTo=, systemd.unit(5)).
	Bound bool
}

func (u Unmet) equal(other Unmet) bool {
	return u.Reason == other.Reason && u.Bound == other.Bound && slices.Equal(u.Names, other.Names)
}

// SetUnmet sets the dependencies that the worker waits for. Turns in flight go on. The error wraps
// ErrUnknown.
func (r roster) SetUnmet(name string, unmet Unmet) error {
	w, err := r.find(name)
	if err != nil {
		return err
	}
	if s, _ := w.view(); !s.unmet.equal(unmet) {
		w.update(func(s *state) { s.unmet = unmet })
	}
	return nil
}
