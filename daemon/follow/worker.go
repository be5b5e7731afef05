package follow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/probes"
	"codex-proxy/units"
)

// next begins the change of a worker. It reports whether there is one to change.
func (f *Follower) next(now time.Time) bool {
	workers := f.Pool.Snapshot().Workers
	at, bad := -1, false
	for i, w := range workers {
		name, other := f.other(w.Unit)
		_, held := f.state.HeldBack(name)
		switch {
		case !other || !w.Ready && (!held || w.Reason != probes.Draining):
		case at < 0, held && !bad, held == bad && inflight(workers, w.Unit) < inflight(workers, workers[at].Unit):
			at, bad = i, held
		}
	}
	if at < 0 {
		return false
	}
	w := workers[at]
	if !bad && f.alone(w, workers, now) && inflight(workers, w.Unit) > 0 {
		return true // when its last turn has ended
	}
	f.change = &change{name: w.Name, unit: w.Unit, to: f.state.InUse, invocation: w.InvocationID}
	_ = f.Pool.DrainForRenewal(w.Name, true) // it is a name of the pool
	f.proceed(context.Background(), now)
	return true
}

// inflight is how many turns the codex of a unit has in flight, which may serve several accounts.
func inflight(workers []probes.Worker, unit string) (n int) {
	for _, w := range workers {
		if w.Unit == unit {
			n += w.Inflight
		}
	}
	return n
}

// alone reports whether no other worker takes turns. Then it has a standby started, if there is one.
func (f *Follower) alone(w probes.Worker, workers []probes.Worker, now time.Time) bool {
	if slices.ContainsFunc(workers, func(o probes.Worker) bool { return o.Unit != w.Unit && o.Ready && o.Out == "" }) {
		return false
	}
	standby := slices.IndexFunc(workers, func(o probes.Worker) bool {
		return o.Reason == probes.Standby && o.Out == ""
	})
	if standby >= 0 && now.Sub(f.wanted) > readyBound {
		f.wanted = now
		_ = f.Pool.Want(workers[standby].Name) // it is a name of the pool
	}
	return true
}

// proceed goes on with the change of a worker.
func (f *Follower) proceed(ctx context.Context, now time.Time) {
	c, workers := f.change, f.Pool.Snapshot().Workers
	i := slices.IndexFunc(workers, func(w probes.Worker) bool { return w.Name == c.name })
	if i < 0 || c.to != f.state.InUse {
		f.drop()
		return
	}
	w := workers[i]
	running := w.InvocationID == c.invocation
	switch {
	case c.ordered.IsZero() && !running: // it has ended by itself
		c.ordered = now
	case c.ordered.IsZero() && inflight(workers, c.unit) == 0:
		if err := f.Pool.Renew(c.name, "codex "+c.to+" is in use"); err == nil {
			c.ordered = now
		} else if c.tried.IsZero() {
			c.tried = now
		} else if now.Sub(c.tried) > endBound { // its shim does not read: the others change nevertheless
			f.giveUp()
		}
	case c.ordered.IsZero():
	case !running && w.Ready:
		f.settle(c.unit)
		f.change = nil
	case running && now.Sub(c.ordered) > endBound && w.ActiveState == "active": // an older shim ends none
		f.giveUp()
	case now.Sub(c.ordered) > readyBound:
		f.failed(ctx, w)
	}
}

// giveUp leaves the worker on its copy until it ends by itself.
func (f *Follower) giveUp() {
	f.Logger.Warn("worker does not change to the codex that is in use", "worker", f.change.name, "copy", f.change.to)
	f.settle(f.change.unit)
	f.drop()
}

func (f *Follower) settle(unit string) { f.settled[unit] = f.state.InUse }

// failed is a worker that does not become ready again on the codex that is in use.
func (f *Follower) failed(ctx context.Context, w probes.Worker) {
	c := f.change
	f.settle(c.unit)
	f.drop()
	if w.Drained || len(w.Unmet) > 0 || w.ActiveState == "inactive" || w.ActiveState == "deactivating" {
		return // an operator or another service keeps it from turns
	}
	if w.LastReadyAt != nil && f.Edited(w.Name).After(*w.LastReadyAt) && serves(f, c.to) {
		return // its file is the fault, and the unit's status says so
	}
	if name, ok := f.Store.Of(c.unit); ok && name == c.to && f.state.Before != "" && f.probation.on(c.to, time.Now()) {
		reason := fmt.Sprintf("worker %s is not ready %s after its change: %s", c.name, readyBound, w.Reason)
		if w.StatusText != "" {
			reason += " (" + w.StatusText + ")"
		}
		f.back(ctx, c.to, reason)
	}
}

// serves reports whether a worker is ready on the copy.
func serves(f *Follower, name string) bool {
	return slices.ContainsFunc(f.Pool.Snapshot().Workers, func(w probes.Worker) bool {
		of, ok := f.Store.Of(w.Unit)
		return ok && of == name && w.Ready
	})
}

// drain forbids or allows new turns on all workers that run the copy.
func (f *Follower) drain(name string, drain bool) {
	for _, w := range f.Pool.Snapshot().Workers {
		if of, ok := f.Store.Of(w.Unit); ok && of == name && !copies.Own(f.Store, w.Unit) { // that does not change back
			_ = f.Pool.DrainForRenewal(w.Name, drain) // it is a name of the pool
		}
	}
}

// Save returns the judgement of the codex in use for Restore of the next process.
func (f *Follower) Save() Saved { return f.probation.save() }

// Restore takes over the judgement of an earlier process.
func (f *Follower) Restore(s Saved) { f.probation.restore(s) }

// Ended takes over the end of a turn of a request on a worker. fault is that of codex itself; empty: none. crash is the
// same for all turns that were lost in one end of codex. It returns once no worker takes new turns on a failing copy.
func (f *Follower) Ended(worker string, request int64, fault string, crash any) {
	f.ended(units.Worker(worker), turn{request, fault}, crash, time.Now())
}

func (f *Follower) ended(unit string, t turn, crash any, now time.Time) {
	if bad := f.probation.ended(unit, t, crash, now); bad != "" {
		f.drain(bad, true)
		f.probation.wake.Touch()
	}
}

// OnProbation reports whether the worker runs a codex that was changed to a short while ago, so that its faults are not
// those of the turns.
func (f *Follower) OnProbation(worker string) bool {
	name, ok := f.Store.Of(units.Worker(worker))
	return ok && f.probation.on(name, time.Now())
}
