package probes

import "slices"

// Reason is the one-word reason why a worker, or the whole service, is ready or not.
// The vocabulary is closed: dashboards and runbooks match on it.
type Reason string

const (
	// Starting means that systemd is starting the unit, or has not reported its state yet.
	Starting Reason = "starting"
	// HandshakePending means that the unit runs and has not answered the JSON-RPC handshake yet.
	HandshakePending Reason = "handshake_pending"
	// Ready means that the unit runs, the handshake is done and models are listed.
	Ready Reason = "ready"
	// WorkerExited means that the worker's process has exited and systemd has not begun to wait for its restart.
	WorkerExited Reason = "worker_exited"
	// HandshakeLost means that the connection broke while the unit is active.
	HandshakeLost Reason = "handshake_lost"
	// BackingOff means that systemd, or before version 254 the unit's own start, waits for the restart delay.
	BackingOff Reason = "backing_off"
	// StartLimitHit means that systemd has given up after too many restarts.
	StartLimitHit Reason = "start_limit_hit"
	// Draining means that a stop or an operator forbids new turns.
	Draining Reason = "draining"
	// Stopped means that the unit is inactive or does not exist.
	Stopped Reason = "stopped"
	// Standby means that the unit is inactive because its account is not needed; the
	// service starts it when it is.
	Standby Reason = "standby"
	// NoModels means that the handshake is done, but the worker lists no model.
	NoModels Reason = "no_models"
	// QuotaExhausted means that every account is out, at least one for its quota. The
	// service may count as ready then, by its settings.
	QuotaExhausted Reason = "quota_exhausted"
	// LoginInvalid means that the account's server refuses the logins of all accounts that
	// no operator has paused.
	LoginInvalid Reason = "login_invalid"
	// NoWorker means that no worker is configured.
	NoWorker Reason = "no_worker"
	// DependencyNotReady means that ready_requires forbids turns while a dependency is not ready.
	DependencyNotReady Reason = "dependency_not_ready"
	// Stuck means that a loop of the service itself does not answer.
	Stuck Reason = "stuck"
)

// soonestFirst orders the reasons of workers that are not ready from the one that
// may end soonest by itself to the one that needs an operator. The first reason
// that any worker has is the service's reason.
var soonestFirst = []Reason{
	HandshakePending, Starting, HandshakeLost, WorkerExited, BackingOff, DependencyNotReady,
	Standby, Draining, NoModels, Stopped, StartLimitHit,
}

// ofService are the reasons that no single worker has.
var ofService = []Reason{QuotaExhausted, LoginInvalid, NoWorker, Stuck}

// OfService reports whether no single worker has the reason, but only the service.
func (r Reason) OfService() bool { return slices.Contains(ofService, r) }

// Reasons are all reasons.
var Reasons = []Reason{
	Starting, HandshakePending, Ready, WorkerExited, HandshakeLost, BackingOff,
	StartLimitHit, Draining, Stopped, Standby, NoModels, DependencyNotReady, QuotaExhausted, LoginInvalid,
	NoWorker, Stuck,
}
