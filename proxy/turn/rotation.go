package turn

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/codex/turnerror"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

// Rotates reports whether turns may run on another account because of a quota.
func (r *Runner) Rotates() bool { return r.rotates }

// SameAccount are the workers with the account of a worker, itself among them. Without
// rotation each worker counts as an account of its own.
func (r *Runner) SameAccount(worker string) (same []string) {
	for _, name := range r.Pool.Names() {
		if name == worker || r.rotates && r.store.SameQuota(name, worker) {
			same = append(same, name)
		}
	}
	return same
}

// blame reports a failure of the attempt to the account store, if the account is at
// fault, also where nothing rotates.
func (t *run) blame(err error) {
	var failed *turnerror.Error
	if !errors.As(err, &failed) {
		return
	}
	worker, now := t.Report.Worker, time.Now()
	switch t.fault = failed.Account(); {
	case t.fault.Quota():
		t.store.Refuse(worker, failed.ResetsAt(now), now)
	case t.fault == turnerror.Unauthorized:
		t.store.Invalidate(worker, now)
	case t.fault == turnerror.RateLimit: // the quota may be the reason
		t.store.Doubt(worker, now)
	}
}

// mayRotate reports whether a turn that its account has refused may run on another one.
// Every account may refuse it once; then the pool has no other for it.
func (t *run) mayRotate() bool {
	return t.rotates && t.output.repeatable() && len(t.ask.Refused) < len(t.Pool.Names())
}

// rotate records that the account refused the turn, for its quota or for the model, and runs the turn on another one.
func (t *run) rotate(err error) {
	worker, reason := t.Report.Worker, string(t.fault)
	t.metrics.rotations.WithLabelValues(worker, reason).Inc()
	t.Logger.Info("turn refused for quota, it runs on another account",
		"request_id", t.ID, "worker", worker, "reason", reason, "attempt", t.Report.Attempts)
	t.ask.Refused = append(t.ask.Refused, worker)
	if t.refused = nil; t.fault == turnerror.ModelRefused {
		t.refused = err
	}
}

// withRefusal is the reason why a turn gets no other account: the last one refused the model, unless another one is
// known to have quota again. The pool counts accounts that have refused the turn as exhausted.
func withRefusal(err, refused error) error {
	var exhausted *dispatch.ExhaustedError
	if refused != nil && errors.As(err, &exhausted) && exhausted.Until.IsZero() {
		return refused
	}
	return err
}

// leaveBehind closes the threads that the conversation has on an account which it has left:
// they would stay loaded until others need their room.
func (t *run) leaveBehind() {
	if t.rotates && t.before != "" && t.before != t.lease.Worker && left(t.store, t.before) {
		t.continuation.drop(t.before)
	}
}

// left reports whether conversations leave an account, so that none returns soon.
func left(store *accounts.Store, account string) bool {
	v, known := store.View(account, time.Now())
	serves := v.State == accounts.Available || v.State == accounts.Unknown
	return known && (v.Paused || !serves || store.Policy().Rotation == accounts.Ordered && !v.InUse)
}

// rotations counts, with all accounts and reasons from the start.
func rotations(f promauto.Factory, names []string) *prometheus.CounterVec {
	v := f.NewCounterVec(prometheus.CounterOpts{
		Name: "codex_turn_rotations_total",
		Help: "Turns that were refused for an account's quota or plan before the client had any output and ran on " +
			"another account, by the account and by how they were refused.",
	}, []string{"from", "reason"})
	for _, name := range names {
		for _, fault := range turnerror.RotatingFaults {
			v.WithLabelValues(name, string(fault))
		}
	}
	return v
}
