package workers

import (
	"slices"

	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
)

// report adds to the snapshot which accounts are out. A nil rotation adds nothing.
func (r *rotation) report(snap *probes.Snapshot) {
	if r == nil {
		return
	}
	snap.ReadyWhenExhausted = r.policy.ReadyWhenExhausted
	views := r.book.Views(snap.At)
	for n := range views {
		v := &views[n]
		out := outOf(v)
		if out == "" { // mostly
			continue
		}
		i := slices.IndexFunc(snap.Workers, func(w probes.Worker) bool { return w.Name == v.Name })
		if i < 0 {
			continue
		}
		if out == probes.QuotaExhausted && !v.Until.IsZero() &&
			(snap.QuotaBack.IsZero() || v.Until.Before(snap.QuotaBack)) {
			snap.QuotaBack = v.Until
		}
		snap.Workers[i].Out = out
	}
}

// outOf is why the account runs no turns; empty if it runs them.
func outOf(v *accounts.View) probes.Reason {
	switch {
	case v.Paused:
		return probes.Draining
	case v.State == accounts.LoginInvalid:
		return probes.LoginInvalid
	case v.State == accounts.Exhausted:
		return probes.QuotaExhausted
	}
	return ""
}
